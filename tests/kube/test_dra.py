"""Parts of GPUs by DRA: the agent as it is started, a real scheduler and a real kubelet; the GPUs are pretended."""
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kube.dra_scene import POD_S, QUARTER, DraScene, dra_scene, one_cut, two_gpus
from waits import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
GPU_MIB = 40960


@pytest.fixture(scope="module")
def scene(cluster, tmp_path_factory) -> Iterator[DraScene]:
    with dra_scene(cluster, tmp_path_factory.mktemp("dra"), two_gpus()) as made:
        yield made


@pytest.fixture
def gpu(scene) -> Iterator[str]:
    """The first; all is given back at the end."""
    yield scene.machine.gpus[0].uuid
    scene.clear()


def test_four_quarters_run_each_with_its_limits_and_the_fifth_starts_when_one_leaves(scene, gpu):
    names = [f"q{number}" for number in range(5)]
    for name in names:
        scene.share(name, gpu=gpu)
    running = lambda: [name for name in names if scene.cluster.is_running(scene.path(name))]  # noqa: E731
    first, second, *_ = chosen = scene.until(lambda: len(found := running()) == 4 and found, "four to run")  # the scheduler takes whom it likes
    (last,) = set(names) - set(chosen)
    until(lambda: "cannot allocate all claims" in scene.why_not(last), "the fifth to wait", POD_S)
    assert scene.held() == {gpu: GPU_MIB}
    env = scene.environment(first)
    assert (env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"], env["VENDOR_0"]) == (gpu, "void", gpu)
    assert env["FAIRY_SHARE"] == f"{gpu}=10240MiB/25%"
    root = scene.inside(first)
    assert (root / "run/fairy/share/limits").read_text().splitlines()[1].startswith(f"gpu {gpu} memory_bytes={10240 * 2**20} sm_percent=25 ")
    assert (root / "etc/ld.so.preload").read_text() == "/run/fairy/share/libfairyshare.so\n"
    assert (root / "run/fairy/share/libfairyshare.so").read_bytes()[:4] == b"\x7fELF"
    assert (root / "run/fairy/ledger/memory").stat().st_mode & 0o777 == 0o666
    scene.delete(second)
    scene.runs(last)
    assert scene.held() == {gpu: GPU_MIB}


def test_two_containers_of_a_claim_have_one_share_and_one_ledger(scene, gpu):
    scene.share("both", gpu=gpu, containers=2)
    scene.runs("both")
    ledgers = [(scene.inside("both", name) / "run/fairy/ledger/memory").stat() for name in ("c0", "c1")]
    assert len({(one.st_dev, one.st_ino) for one in ledgers}) == 1
    assert scene.held() == {gpu: GPU_MIB // 4}


def test_a_claim_that_says_no_amount_has_the_whole_gpu_without_limits_and_waits_for_it(scene, gpu):
    scene.share("part", gpu=gpu)
    scene.runs("part")
    scene.share("whole", None, gpu=gpu)
    until(lambda: scene.why_not("whole"), "the whole one to wait", POD_S)
    scene.delete("part")
    scene.runs("whole")
    assert scene.held() == {gpu: GPU_MIB}
    assert not (scene.inside("whole") / "run/fairy/share").exists()
    assert scene.environment("whole")["VENDOR_0"] == gpu


def test_the_driver_killed_pods_go_on_and_who_leaves_meanwhile_is_given_back_when_it_is_there_again(scene, gpu):
    for number in range(4):
        scene.share(f"q{number}", gpu=gpu)
    scene.runs(*(f"q{number}" for number in range(4)))
    pids = [scene.pid(f"q{number}") for number in range(4)]
    scene.agent.kill()
    scene.delete("q0", grace_s=None)
    assert [scene.pid(f"q{number}") for number in (1, 2, 3)] == pids[1:]
    assert scene.held() == {gpu: GPU_MIB}
    scene.agent.start()
    scene.until(lambda: "has taken the driver" in scene.agent.log, "the kubelet to take it")  # a pod that came before is tried again after a minute
    scene.share("late", gpu=gpu)
    scene.runs("late")
    assert scene.held() == {gpu: GPU_MIB}
    assert [scene.pid(f"q{number}") for number in (1, 2, 3)] == pids[1:]


class Most:
    """The most that was ever held of each GPU, as another reader than the driver sees it, from its start to its end."""

    def __init__(self, scene: DraScene) -> None:
        self.found: Counter[str] = Counter()
        self._scene, self._over = scene, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.002):
            self.found |= self._scene.held()

    def __enter__(self) -> "Most":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_a_gpu_is_never_granted_beyond_what_it_has_when_pods_are_deleted_without_grace(scene, gpu):
    with Most(scene) as most:
        for number in range(4):
            scene.share(f"q{number}", gpu=gpu)
        scene.runs(*(f"q{number}" for number in range(4)))
        for number in range(4):
            scene.delete(f"q{number}")
            scene.share(f"next{number}", gpu=gpu)
        scene.runs(*(f"next{number}" for number in range(4)))
    assert most.found == {gpu: GPU_MIB}
    assert "waits: " in scene.agent.log, "no claim came before the one it follows was given back: nothing was tried"


def test_the_kubelet_restarted_pods_go_on_and_new_ones_come(scene, gpu):
    scene.share("before", gpu=gpu)
    scene.runs("before")
    pid = scene.pid("before")
    scene.restart_kubelet()
    scene.share("after", gpu=gpu)
    scene.runs("before", "after")
    assert scene.pid("before") == pid
    assert scene.held() == {gpu: GPU_MIB // 2}


def test_what_somebody_deleted_of_its_slices_is_put_back(scene, gpu):
    before = {one["metadata"]["name"] for one in scene.slices()}
    assert len(before) == 2
    for name in before:
        scene.cluster.ask("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{name}")
    scene.offered()
    until(lambda: len({one["spec"]["pool"]["generation"] for one in scene.slices()}) == 1, "all of them to be of one generation", 30)


def test_a_gpu_that_is_cut_is_offered_as_its_instances_each_one_claims(scene, gpu):
    scene.show(one_cut())
    try:
        scene.offered()
        instance = scene.machine.gpus[1].instances[1]
        scene.share("mine", None, gpu=instance.uuid)
        scene.runs("mine")
        scene.share("other", None, gpu=instance.uuid)
        until(lambda: scene.why_not("other"), "the other to wait", POD_S)
        assert scene.environment("mine")["CUDA_VISIBLE_DEVICES"] == instance.uuid
        assert not (scene.inside("mine") / "etc/ld.so.preload").exists()
        scene.delete("mine")
        scene.runs("other")
        scene.clear()
    finally:
        scene.show(two_gpus())
        scene.offered()


def test_a_gpu_that_fell_off_the_bus_is_no_longer_offered_and_who_is_on_it_is_left_alone(scene, gpu):
    scene.share("stays", gpu=gpu)
    scene.runs("stays")
    lost = two_gpus()
    scene.driver.write(replace(lost, gpus=(replace(lost.gpus[0], lost=True), lost.gpus[1])))
    scene.until(lambda: len(scene.devices()) == 1, "it to be taken off the list")
    assert scene.cluster.is_running(scene.path("stays"))
    scene.show(two_gpus())
    scene.offered()


def test_a_pod_with_two_claims_is_told_to_make_them_one(scene, gpu):
    scene.claim("one", QUARTER, gpu=gpu)
    scene.claim("two", QUARTER, gpu=scene.machine.gpus[1].uuid)
    scene.pod("greedy", "one", "two")
    words = "Put all its requests for GPUs into one claim."
    events = f"/api/v1/namespaces/{scene.namespace}/events?fieldSelector=involvedObject.name%3Dgreedy"
    scene.until(lambda: any(words in one["message"] for one in scene.cluster.ask("GET", events)["items"]), "its event")


def test_parts_of_two_gpus_in_one_claim_are_both_in_its_limits(scene, gpu):
    scene.claim("wide", {"memory": "30Gi", "cores": "60"}, {"memory": "30Gi", "cores": "60"})
    scene.pod("wide", "wide")
    scene.runs("wide")
    rows = (scene.inside("wide") / "run/fairy/share/limits").read_text().splitlines()
    assert sorted(row.split()[1] for row in rows if row.startswith("gpu ")) == sorted(one.uuid for one in scene.machine.gpus)
    env = scene.environment("wide")
    assert {env["VENDOR_0"], env["VENDOR_1"]} == {one.uuid for one in scene.machine.gpus}
    assert "CUDA_VISIBLE_DEVICES" not in env
