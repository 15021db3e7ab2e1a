"""Parts of GPUs on Kubernetes as users ask for them: through the server, with the agent as DRA driver on a real kubelet; the GPUs are pretended."""
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.server import LiveServer
from kube_scene import kube_server

from kube.cluster import Cluster
from kube.dra_scene import DraScene, dra_scene, one_cut
from waits import until, wait_for_state

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
START_S = 60.0


@pytest.fixture(scope="module")
def scene(cluster_with_tools: Cluster, tmp_path_factory) -> Iterator[DraScene]:
    with dra_scene(cluster_with_tools, tmp_path_factory.mktemp("dra"), one_cut()) as made:
        yield made


@pytest.fixture(scope="module")
def live(scene: DraScene) -> Iterator[LiveServer]:
    with kube_server(scene.cluster, homes=1) as started:
        yield started


@pytest.fixture
def client(live, scene) -> Iterator:
    client = live.client()
    yield client
    names = [one["name"] for one in client.sessions() if one["state"] != "ENDED"]
    for name in names:
        client.stop(name)
    for name in names:
        wait_for_state(client, name, "ENDED", limit_s=START_S)
    until(lambda: not scene.held(), "all to be given back", START_S)


def start(client, name: str, gpus: str) -> None:
    client.submit({"name": name, "kind": "interactive", "gpus": gpus, "memory": "64MiB", "cpus": 0.05})


def test_four_quarters_run_on_the_gpu_that_was_chosen_and_the_fifth_waits_in_words_until_one_leaves(client, scene, live):
    gpu = scene.machine.gpus[0]
    names = [f"q{number}" for number in range(5)]
    for name in names:
        start(client, name, "0.25")
    for name in names[:4]:
        seat = wait_for_state(client, name, "RUNNING", limit_s=START_S)["seat"]["gpus"][0]
        assert (seat["uuid"], seat["share"], seat["memory_bytes"]) == (gpu.uuid, 0.25, gpu.memory_mib * 2**20 // 4)
        assert (seat["enforced"], sorted(seat["accounted"])) == ([], ["memory", "sm"]), "no self-test has found anything to hold"
    assert client.session("q4")["state"] == "PENDING"
    # The words are those of the last pass, in which the fourth may still have been ahead of it.
    words = f"{scene.cluster.node} has at most 0 of one GPU free, 0.25 asked"
    until(lambda: client.session("q4")["why"] == words, f"the fifth to say: {words}", START_S)
    assert scene.held() == {gpu.uuid: gpu.memory_mib}
    client.stop("q1")
    wait_for_state(client, "q4", "RUNNING", limit_s=START_S)
    pod = next(one for one in scene.cluster.ask("GET", f"/api/v1/namespaces/{live.namespace}/pods")["items"] if "-q4-" in one["metadata"]["name"])
    root = Path(f"/proc/{scene.cluster.pid(pod, 'main')}/root")
    assert f"gpu {gpu.uuid} memory_bytes={gpu.memory_mib * 2**20 // 4} sm_percent=25 " in (root / "run/fairy/share/limits").read_text()
    assert (root / "run/fairy/token").exists()


def test_a_mig_instance_is_had_by_its_profile(client, scene):
    start(client, "cut", "mig:1g.5gb")
    seat = wait_for_state(client, "cut", "RUNNING", limit_s=START_S)["seat"]["gpus"][0]
    assert seat["uuid"] == scene.machine.gpus[1].uuid
    assert scene.held() == {scene.machine.gpus[1].instances[1].uuid: 4864}


def test_a_gpu_of_which_somebody_else_has_a_part_is_given_to_nobody_and_the_claim_is_named(client, scene, live):
    scene.share("foreign", gpu=scene.machine.gpus[0].uuid)
    scene.runs("foreign")
    start(client, "beside", "0.25")
    told: list[str] = []

    def is_named() -> bool:
        told.append(client.session("beside")["why"])
        return f"{scene.namespace}/foreign" in told[-1]

    try:
        until(is_named, "the claim to be named", START_S)
    except AssertionError:
        pytest.fail(f"{sorted(set(told))}\n{scene.held()}\n{live.log[-3000:]}")
    scene.delete("foreign")
    wait_for_state(client, "beside", "RUNNING", limit_s=START_S)
