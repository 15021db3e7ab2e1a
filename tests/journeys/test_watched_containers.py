"""The contract as a real Prometheus has it, of processes in real Docker containers: people's own, and those of sessions."""
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bench.server import LiveServer
from collector_scene import ServedCollector

from daemons import RealDaemon
from docker_settings import docker_settings
from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess
from images import BUSYBOX_IMAGE
from prometheus import Prometheus, node_exporter, prometheus, promtool
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]
JOBS = ("exporter", "textfile", "server")
SETTINGS = """
[watch]
name_rules = ["USER_*"]
"""


@dataclass
class Box:
    """A machine with a GPU that is used by processes in containers and beside them, and a second one, cut in two."""

    daemon: RealDaemon
    driver: FakeNvml
    live: LiveServer
    scraped: Prometheus
    exporter: ServedCollector
    textfile: Path
    pids: dict[str, int] = field(default_factory=dict)

    def put(self, *on_gpu: str, on_instance: str) -> None:
        """Who is on which, by name."""
        whole = FakeGpu(utilisation=85, used_mib=2100, processes=tuple(FakeProcess(self.pids[name], 1024, 85, 60) for name in on_gpu))
        cut = (FakeInstance(3, slot=2, used_mib=256, processes=(FakeProcess(self.pids[on_instance], 256),)), FakeInstance(4, slot=5, start=1))
        self.driver.write(FakeMachine((whole, FakeGpu(mig=True, instances=cut))))

    def rows(self, job: str, family: str, name: str) -> list[tuple[dict[str, str], float]]:
        found = self.scraped.query(f'{family}{{job="{job}",pid="{self.pids[name]}"}}')
        return [({label: value for label, value in labels.items() if label not in ("__name__", "job", "instance")}, value) for labels, value in found]

    def seen(self, job: str, name: str, **labels: str) -> dict[str, str]:
        """Its labels in gpu_process_info, when they are these."""
        def look() -> dict[str, str] | None:
            return next((row for row, _ in self.rows(job, "gpu_process_info", name) if labels.items() <= row.items()), None)

        found: dict[str, str] = until(look, f"{name} with {labels} by {job}; {self.rows(job, 'gpu_process_info', name)}", 20)
        return found


def started_by_hand(daemon: RealDaemon, name: str, labels: dict[str, str] | None = None) -> int:
    """The PID that the host has for it."""
    body: dict[str, Any] = {"Image": BUSYBOX_IMAGE, "Cmd": ["sleep", "1000"], "Labels": labels or {}, "HostConfig": {"NetworkMode": "none"}}
    made = daemon.ask("POST", f"/containers/create?name={name}", body)["Id"]
    daemon.ask("POST", f"/containers/{made}/start")
    return int(until(lambda: daemon.container(made)["State"]["Pid"], f"{name} to run"))


def top(daemon: RealDaemon, name: str) -> dict[str, int]:
    """As `docker top` shows it: PIDs by command."""
    told = daemon.ask("GET", f"/containers/{name}/top?ps_args=-eo%20pid,comm")
    return {row[-1]: int(row[0]) for row in told["Processes"]}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, docker_daemon: RealDaemon) -> Iterator[Box]:
    folder, textfiles = Path(tempfile.mkdtemp(prefix="fairy-w-")), tmp_path_factory.mktemp("textfiles")
    driver = FakeNvml(tmp_path_factory.mktemp("driver"))
    driver.write(FakeMachine((FakeGpu(), FakeGpu(mig=True, instances=(FakeInstance(3, slot=2), FakeInstance(4, slot=5, start=1))))))
    outside = subprocess.Popen(["sleep", "1000"])
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        undo.callback(outside.wait)
        undo.callback(outside.kill)
        live = LiveServer(folder, docker_settings(docker_daemon.socket, SETTINGS), engine="docker")
        live.env |= driver.env
        undo.enter_context(live)
        started = ("--textfile", str(textfiles), "--names", "USER_*", "--every", "0.5s")
        exporter = undo.enter_context(ServedCollector(tmp_path_factory.mktemp("exporter"), *started, fake=driver, env={"DOCKER_HOST": f"unix://{docker_daemon.socket}"}))
        node = undo.enter_context(node_exporter(textfiles, textfiles.parent / "node-exporter.log"))
        targets = {"exporter": exporter.address, "textfile": node, "server": live.url.removeprefix("http://")}
        scraped = undo.enter_context(prometheus(tmp_path_factory.mktemp("prometheus"), targets))
        made = Box(docker_daemon, driver, live, scraped, exporter, textfiles / "gpu_sessions.prom", {"outside": outside.pid})
        made.pids |= {"alice": started_by_hand(docker_daemon, "alice_train"), "labelled": started_by_hand(docker_daemon, "nameless", {"owner": "carol"})}
        made.pids["session"] = pid_of_session(live, docker_daemon)
        made.put("alice", "labelled", "session", on_instance="outside")
        yield made


def pid_of_session(live: LiveServer, daemon: RealDaemon) -> int:
    live.client().add_user({"name": "kim"})
    kim = live.client(live.client().create_token({"user": "kim"})["token"])
    kim.submit({"name": "train", "gpus": "0", "cpus": 1, "memory": "256MiB", "command": ["sleep", "1000"]})
    wait_for_state(kim, "train", "RUNNING")
    return int(until(lambda: top(daemon, "fairy-kim-train").get("sleep"), "its process"))


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("name", "container"), [("alice", "alice_train"), ("session", "fairy-kim-train"), ("labelled", "nameless")])
def test_all_five_families_of_a_process_in_a_container_arrive(box, job, name, container):
    labels = {"gpu": "0", "pid": str(box.pids[name]), "command": "sleep", "container": container}  # empty ones are none to Prometheus
    info = box.seen(job, name, container=container)
    assert info == {**labels, "status": "active", "gpu_memory": "1024MiB"}
    assert box.rows(job, "gpu_process_utilization", name) == [(labels, 85)]
    assert box.rows(job, "gpu_process_memory_utilization", name) == [(labels, 60)]
    counts = {row["gpu"]: value for row, value in box.scraped.query(f'gpu_session_count{{job="{job}"}}')}
    assert counts == {"0": 3, "1_3_0": 1, "1_4_0": 0}
    assert [value for _, value in box.scraped.query(f'gpu_total_sessions{{job="{job}"}}')] == [4]


@pytest.mark.parametrize("job", JOBS)
def test_a_process_beside_all_containers_is_named_as_such_with_its_user(box, job):
    info = box.seen(job, "outside")
    assert info == {"gpu": "1_3_0", "pid": str(box.pids["outside"]), "command": "sleep", "status": "active", "gpu_memory": "256MiB"}
    box.scraped.when_there(f'fairy_outside_processes{{job="{job}",gpu="1_3_0",user="root"}} == 1')


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("name", "user"), [("alice", "alice"), ("labelled", "carol")])
def test_containers_started_by_hand_are_their_users_by_rule_or_label(box, job, name, user):
    box.seen(job, name)
    box.scraped.when_there(f'fairy_process_gpu_memory_bytes{{job="{job}",pid="{box.pids[name]}",user="{user}",session=""}}')
    box.scraped.when_there(f'fairy_outside_processes{{job="{job}",gpu="0",user="{user}"}} == 1')


def test_a_session_is_known_by_its_name_and_owner_to_its_server(box):
    box.scraped.when_there(f'fairy_process_gpu_memory_bytes{{job="server",pid="{box.pids["session"]}",user="kim",session="train"}} == 1024 * 1024 * 1024')
    [(labels, _)] = box.scraped.when_there('fairy_session_info{job="server",user="kim",session="train"}')
    box.scraped.when_there(f'fairy_session_memory_bytes{{job="server",session_id="{labels["session_id"]}"}} > 0')
    assert box.scraped.query('fairy_outside_processes{job="server",user="kim"}') == []


def test_the_pids_are_those_of_docker_top(box):
    assert top(box.daemon, "alice_train") == {"sleep": box.pids["alice"]}
    shown = {labels["container"]: labels["pid"] for labels, _ in box.scraped.when_there('gpu_process_info{job="server",gpu="0"}')}
    assert shown["alice_train"] == str(box.pids["alice"])
    assert shown["fairy-kim-train"] == str(top(box.daemon, "fairy-kim-train")["sleep"])


def test_smi_names_them_all(box):
    box.seen("server", "session", container="fairy-kim-train")
    [node] = box.live.client().nodes()
    found = {process["pid"]: (process["user"], process["known_by"], process["session"], process["outside"]) for process in node["gpus"][0]["processes"]}
    assert found == {
        box.pids["alice"]: ("alice", "rule", None, True),
        box.pids["labelled"]: ("carol", "label", None, True),
        box.pids["session"]: ("kim", "session", "train", False),
    }
    table = box.live.fairy("smi").stdout
    assert [line for line in table.splitlines() if {"alice", "outside", str(box.pids["alice"]), "alice_train"} <= set(line.split())], table
    assert [line for line in table.splitlines() if {"kim", "train", "fairy-kim-train"} <= set(line.split())], table


def test_promtool_finds_no_fault_with_the_pages(box):
    box.seen("exporter", "alice")
    for page in (box.exporter.page().encode(), box.textfile.read_bytes()):
        checked = promtool("check", "metrics", given=page)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_container_that_is_renamed_has_its_new_name(box):
    """Its engine is asked each half minute, and at once when a container is met that nobody has heard of."""
    box.seen("exporter", "alice", container="alice_train")
    box.daemon.ask("POST", "/containers/alice_train/rename?name=bob_eval")
    box.pids["new"] = started_by_hand(box.daemon, "dave_new")
    box.put("alice", "labelled", "new", on_instance="session")
    for job in JOBS:
        box.seen(job, "new", container="dave_new")
        box.seen(job, "alice", container="bob_eval")
        box.seen(job, "session", gpu="1_3_0", container="fairy-kim-train")
        box.scraped.when_there(f'fairy_process_gpu_memory_bytes{{job="{job}",pid="{box.pids["alice"]}",user="bob"}}')
