"""Whose a process is: of real containers, and of cgroup texts and facts where a real one would take a cluster."""
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from container_scene import by_hand, pid_of

from builders import a_session
from daemons import RealDaemon
from gpufairy.core.naming_rule import NamingRules, parse_rules
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.engines.docker_spec import labels
from gpufairy.node.accounts import Accounts
from gpufairy.node.container_list import ContainerFacts
from gpufairy.node.containers import GOOD_S, Containers, EngineSocket
from gpufairy.node.processes import Processes
from gpufairy.node.whose import PodFacts, SessionFacts, Whose
from waits import until

A, B = "a" * 64, "b" * 64
POD = "0e886e9a-3879-45f9-b44d-86ef9df03224"
RULES = NamingRules(parse_rules(["USER_*"]))
PROCESS = RunningProcess(7, 100, 1001, "python")
SESSION = {"gpufairy.role": "session", "gpufairy.server": "s1", "gpufairy.session": "id1", "gpufairy.owner": "kim", "gpufairy.name": "brave-otter"}


class Known:
    """Containers that engines tell of."""

    def __init__(self, *facts: ContainerFacts) -> None:
        self.by_id = {one.id: one for one in facts}

    def facts(self, container_id: str, uid: int | None = None) -> ContainerFacts | None:
        found = self.by_id.get(container_id)
        return found if found is not None and found.uid == uid else None


def whose(*facts: ContainerFacts, **options: object) -> Whose:
    return Whose(Known(*facts), RULES, accounts={0: "root", 1001: "alice"}.__getitem__, **options)  # type: ignore[arg-type]


def test_a_process_outside_any_container_is_its_accounts():
    assert whose().owner(PROCESS, "0::/user.slice/user-1001.slice/session-3.scope") == Owner("alice", KnownBy.ACCOUNT)
    assert whose().owner(PROCESS, "0::/system.slice/slurmstepd.scope/job_298726/step_0/user/task_0") == Owner("alice", KnownBy.ACCOUNT)
    assert whose().owner(PROCESS, "") == Owner("alice", KnownBy.ACCOUNT)


def test_a_container_is_its_sessions_owners():
    found = whose(ContainerFacts(A, "fairy-kim-brave-otter", SESSION)).owner(PROCESS, f"0::/docker/{A}")
    assert found == Owner("kim", KnownBy.SESSION, "id1", "brave-otter", "fairy-kim-brave-otter", A)
    assert not found.outside


def test_the_labels_are_those_that_the_engine_writes():
    session = a_session("true")
    found = whose(ContainerFacts(A, "x", labels(session, "s1")), server_id="s1").owner(PROCESS, f"0::/docker/{A}")
    assert (found.user, found.session_id, found.session) == (session.owner, session.id, session.name)


@pytest.mark.parametrize("change", [{"gpufairy.server": "s2"}, {"gpufairy.role": "files"}, {"gpufairy.session": ""}, {"gpufairy.owner": "no user"}, {"gpufairy.name": "a\nb"}, {"gpufairy.session": "x" * 100}])
def test_labels_that_are_not_this_servers_make_no_session(change: dict[str, str]):
    found = whose(ContainerFacts(A, "box", {**SESSION, **change}), server_id="s1").owner(PROCESS, f"0::/docker/{A}")
    assert found == Owner(container="box", container_id=A)
    assert found.outside


def test_a_users_own_engine_cannot_make_a_session_or_another_user():
    text = f"0::/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-{A}.scope/container"
    forged = ContainerFacts(A, "bob_train", {**SESSION, "user": "bob"}, uid=1001)
    assert whose(forged).owner(PROCESS, text) == Owner("alice", KnownBy.ACCOUNT, container="bob_train", container_id=A)


def test_a_rootless_container_is_its_users_though_no_engine_tells_of_it():
    text = f"0::/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-{A}.scope/container"
    assert whose().owner(PROCESS, text) == Owner("alice", KnownBy.ACCOUNT, container_id=A)


SLICE = "0::/user.slice/user-1001.slice/user@1001.service/app.slice"


@pytest.mark.parametrize("name", [f"docker-{A}.scope", f"libpod-{A}.scope/container", f"docker/{A}", A, f"lxc.payload.box/docker/{A}"])
def test_a_cgroup_that_a_user_made_does_not_make_a_process_somebody_elses(name: str):
    told = whose(ContainerFacts(A, "fairy-kim-brave-otter", SESSION), server_id="s1")
    assert told.owner(PROCESS, f"0::/docker/{A}").session == "brave-otter"
    found = told.owner(PROCESS, f"{SLICE}/{name}")
    assert (found.user, found.known_by, found.session_id, found.outside) == ("alice", KnownBy.ACCOUNT, None, True)
    assert "kim" not in found.container


@pytest.mark.parametrize("name", [f"kubepods-pod{POD}.slice", f"kubepods-pod{POD}.slice/cri-containerd-{A}.scope", f"kubepods/pod{POD}/{A}"])
def test_a_cgroup_that_a_user_made_is_no_pod(name: str):
    ours = PodFacts("fairy-kim-x", "ml", "main", session=SessionFacts("id1", "x", "kim"))
    found = whose(pods=lambda uid, one, device: ours).owner(PROCESS, f"{SLICE}/{name}")
    assert (found.user, found.known_by, found.pod, found.outside) == ("alice", KnownBy.ACCOUNT, "", True)


def test_a_users_own_engine_names_containers_in_that_users_slice():
    told = whose(ContainerFacts(A, "train", uid=1001))
    for name in (f"docker-{A}.scope", f"libpod-{A}.scope/container"):
        assert told.owner(PROCESS, f"{SLICE}/{name}") == Owner("alice", KnownBy.ACCOUNT, container="train", container_id=A)


@pytest.mark.parametrize("around", [f"docker/{B}", "lxc.payload.mallory_box"])
def test_a_cgroup_made_inside_a_container_is_no_pod_and_no_session(around: str):
    ours = PodFacts("fairy-kim-x", "ml", "main", session=SessionFacts("id1", "x", "kim"))
    told = whose(ContainerFacts(A, "ours", SESSION), ContainerFacts(B, "mallory_x"), pods=lambda uid, one, device: ours)
    for inner in (f"docker-{A}.scope", f"kubepods-pod{POD}.slice/docker-{A}.scope"):
        found = told.owner(PROCESS, f"0::/{around}/{inner}")
        assert (found.user, found.known_by, found.session_id) == ("mallory", KnownBy.RULE, None)


def test_a_container_by_hand_is_known_by_its_label_then_its_name():
    text = f"0::/docker/{A}"
    assert whose(ContainerFacts(A, "bob_x", {"owner": "carol"})).owner(PROCESS, text) == Owner("carol", KnownBy.LABEL, container="bob_x", container_id=A)
    assert whose(ContainerFacts(A, "bob_x")).owner(PROCESS, text) == Owner("bob", KnownBy.RULE, container="bob_x", container_id=A)
    assert whose(ContainerFacts(A, "redis")).owner(PROCESS, text) == Owner(container="redis", container_id=A)
    assert whose().owner(PROCESS, text) == Owner(container_id=A)


def test_a_cgroup_made_inside_a_container_does_not_make_it_somebody_elses():
    known = ContainerFacts(A, "mallory_x"), ContainerFacts(B, "fairy-kim-brave-otter", SESSION)
    assert whose(*known).owner(PROCESS, f"0::/docker/{A}/docker-{B}.scope").user == "mallory"


def test_a_container_in_a_container_is_known_by_the_one_that_an_engine_here_knows():
    assert whose(ContainerFacts(A, "alice_dind")).owner(PROCESS, f"0::/docker/{A}/docker/{B}").user == "alice"
    assert whose(ContainerFacts(B, "alice_x")).owner(PROCESS, f"0::/docker/{A}/docker/{B}").user == "alice"


def test_an_lxc_container_is_named_by_its_id():
    for text in ("0::/lxc.payload.bob_box/system.slice/ssh.service", f"0::/lxc.payload.bob_box/docker/{A}"):
        assert whose().owner(PROCESS, text) == Owner("bob", KnownBy.RULE, container="bob_box", container_id="bob_box")


def test_a_pod_is_told_with_what_kubernetes_knows_of_it():
    text = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{A}.scope"
    assert whose().owner(PROCESS, text) == Owner(known_by=KnownBy.POD, container_id=A)
    pods = {(POD, A): PodFacts("train-0", "ml", "torch", "kim")}
    assert whose(pods=lambda uid, one, device: pods.get((uid, one))).owner(PROCESS, text) == Owner("kim", KnownBy.POD, container="torch", container_id=A, pod="train-0", namespace="ml")
    ours = PodFacts("fairy-kim-x", "ml", "main", session=SessionFacts("id1", "x", "kim"))
    found = whose(pods=lambda uid, one, device: ours).owner(PROCESS, text)
    assert (found.user, found.known_by, found.session_id, found.pod) == ("kim", KnownBy.SESSION, "id1", "fairy-kim-x")


KUBE_TEXT = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{A}.scope"


def of_pod(namespace: str, labels: dict[str, str], **options: object) -> Owner:
    return whose(pods=lambda uid, one, device: PodFacts("carol_train", namespace, "torch", labels=labels), **options).owner(PROCESS, KUBE_TEXT)


def test_a_pod_is_the_users_that_its_label_or_name_tells():
    assert (of_pod("ml", {"owner": "kim"}).user, of_pod("ml", {}).user) == ("kim", "carol")
    assert of_pod("ml", {"owner": "kim"}).known_by is KnownBy.POD


def test_our_labels_make_a_session_of_a_pod_in_the_namespace_of_sessions_alone():
    found = of_pod("sessions", SESSION, session_namespaces=("sessions", "sessions-vision"), server_id="s1")
    assert (found.user, found.known_by, found.session_id, found.pod, found.container) == ("kim", KnownBy.SESSION, "id1", "carol_train", "torch")
    for namespace, options in (("ml", {"session_namespaces": ("sessions",)}), ("sessions", {}), ("", {}), ("sessions", {"session_namespaces": ("sessions",), "server_id": "s2"})):
        found = of_pod(namespace, SESSION, **options)
        assert (found.user, found.known_by, found.session_id) == ("carol", KnownBy.POD, None)


def test_whoever_tells_of_pods_is_told_the_gpu():
    asked: list[tuple[str, str | None, str]] = []
    whose(pods=lambda *about: asked.append(about)).owner(PROCESS, KUBE_TEXT, "GPU-1")
    assert asked == [(POD, A, "GPU-1")]


def test_a_container_started_inside_a_pod_is_the_pods():
    text = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{A}.scope/docker/{B}"
    pods = {(POD, A): PodFacts("train-0", "ml", "torch", "kim")}
    assert whose(pods=lambda uid, one, device: pods.get((uid, one))).owner(PROCESS, text).pod == "train-0"


def test_a_pod_of_docker_is_a_pod_though_docker_knows_its_container():
    text = f"0::/kubepods/burstable/pod{POD}/{A}"
    found = whose(ContainerFacts(A, "k8s_torch_train-0"), pods=lambda uid, one, device: PodFacts("train-0", "ml", "torch", "kim")).owner(PROCESS, text)
    assert (found.user, found.pod, found.container) == ("kim", "train-0", "torch")


def test_a_process_of_a_session_without_a_container_is_known_by_its_number():
    by_pid = {(7, 100): SessionFacts("id1", "brave-otter", "kim")}
    told = whose(sessions_by_pid=lambda pid, start_ticks: by_pid.get((pid, start_ticks)))
    text = "0::/user.slice/user-1001.slice/session-3.scope"
    assert told.owner(PROCESS, text) == Owner("kim", KnownBy.SESSION, "id1", "brave-otter")
    assert told.owner(RunningProcess(7, 101, 1001, "python"), text) == Owner("alice", KnownBy.ACCOUNT), "another process under the same number"


def test_a_container_that_its_engine_forgot_remains_whose_it_was():
    known = Known(ContainerFacts(A, "bob_x"))
    told = Whose(known, RULES, accounts=str)
    before = told.owner(PROCESS, f"0::/docker/{A}")
    known.by_id.clear()
    assert told.owner(PROCESS, f"0::/docker/{A}") == before
    assert told.owner(RunningProcess(7, 101, 1001, "python"), f"0::/docker/{A}") == Owner(container_id=A)


def test_a_rename_takes_the_old_user_away():
    known = Known(ContainerFacts(A, "bob_x"))
    told = Whose(known, RULES, accounts=str)
    told.owner(PROCESS, f"0::/docker/{A}")
    known.by_id[A] = ContainerFacts(A, "redis")
    assert told.owner(PROCESS, f"0::/docker/{A}") == Owner(container="redis", container_id=A)


@pytest.mark.system
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_real_processes_in_real_containers_are_whose_they_are(request: pytest.FixtureRequest, engine: str):
    daemon: RealDaemon = request.getfixturevalue(f"{engine}_daemon")
    now_s = [0.0]
    containers = Containers(lambda: [EngineSocket(str(daemon.socket))], monotonic=lambda: now_s[0], wait_s=10.0)
    told, processes = Whose(containers, RULES, accounts=Accounts().name), Processes()

    def owner(pid: int) -> Owner:
        process = processes.running(pid)
        assert process is not None
        return told.owner(process, processes.cgroup(pid))

    with by_hand(daemon, "alice_train") as train, by_hand(daemon, "labelled", {"user": "bob"}) as labelled, by_hand(daemon, "ours", SESSION) as ours:
        assert owner(pid_of(daemon, train)) == Owner("alice", KnownBy.RULE, container="alice_train", container_id=train)
        now_s[0] += GOOD_S
        assert owner(pid_of(daemon, labelled)) == Owner("bob", KnownBy.LABEL, container="labelled", container_id=labelled)
        assert owner(pid_of(daemon, ours)) == Owner("kim", KnownBy.SESSION, "id1", "brave-otter", "ours", ours)
        daemon.ask("POST", f"/containers/{train}/rename?name=carol_train")
        now_s[0] += GOOD_S
        containers.refresh()
        until(lambda: owner(pid_of(daemon, train)).user == "carol", "the new name")


@pytest.mark.system
def test_a_real_cgroup_under_a_users_slice_with_the_name_of_anothers_container_is_the_users(users_cgroup: Callable[[str], Path]):
    told, processes = whose(ContainerFacts(A, "fairy-kim-brave-otter", SESSION), server_id="s1"), Processes()
    folder = users_cgroup(f"docker-{A}.scope")
    with subprocess.Popen(["sleep", "1000"]) as child:
        try:
            (folder / "cgroup.procs").write_text(str(child.pid))
            assert f"docker-{A}.scope" in processes.cgroup(child.pid)
            found = told.owner(RunningProcess(child.pid, 1, 1001, "sleep"), processes.cgroup(child.pid))
            assert (found.user, found.session_id, found.outside) == ("alice", None, True)
        finally:
            child.kill()


@pytest.fixture
def users_cgroup() -> Iterator[Callable[[str], Path]]:
    """Makes one as a user could, in a hierarchy that may be written here; it goes with the test."""
    tops = [Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
    top = next((one for one in tops if os.access(one / "cgroup.procs", os.W_OK)), None)
    if top is None:
        pytest.skip("no cgroup can be made here: that needs root and a file system of cgroups that may be written")
    made: list[Path] = []

    def make(name: str) -> Path:
        folder = top / "user.slice/user-1001.slice/user@1001.service/app.slice" / name
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir()
            made.append(one)
        return folder

    try:
        yield make
    finally:
        for one in reversed(made):
            until(lambda one=one: not (one / "cgroup.procs").read_text(), "its processes to end")
            one.rmdir()


def test_a_real_process_of_this_host_is_its_accounts():
    with subprocess.Popen(["sleep", "1000"]) as child:
        processes = Processes()
        process = processes.running(child.pid)
        assert process is not None
        found = Whose(Known(), accounts=Accounts().name).owner(process, processes.cgroup(child.pid))
        assert found.user == (Accounts().name(os.geteuid()) if found.container_id is None else None)
        child.kill()


def test_what_the_collector_imports_stays_light():
    program = "import sys, gpufairy.node.whose, gpufairy.node.containers, gpufairy.main.pods, gpufairy.node.processes, gpufairy.node.accounts; print(*sys.modules)"
    source = Path(__file__).parents[2] / "src"
    loaded = subprocess.run(["env", f"PYTHONPATH={source}", sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "sqlalchemy", "fastapi", "aiohttp", "aiodocker", "rich", "typer", "numpy"} & set(loaded)
