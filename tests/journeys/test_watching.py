"""A host that is only watched: its agent on a fake driver, the server as it is shipped, people who accept, look and forget."""
import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.server import LiveServer
from collector_scene import Collector

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess
from gpufairy.client import Fairy
from gpufairy.main.agent import REPORT_EVERY_S
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow  # reports come every five seconds
SOON_S = 15  # three reports
SILENT_S = 20  # a dead host is noticed by then
SETTINGS = """
[node]
name = 'box'
cpus = 16
memory = '32GiB'
[watch]
name_rules = ['USER_*']
"""


@dataclass
class Sleeper:
    """A process of the host for the fake driver to tell of."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid


@pytest.fixture(scope="module")
def sleeper() -> Iterator[Sleeper]:
    process = subprocess.Popen(["sleep", "1000"])
    yield Sleeper(process)
    process.kill()
    process.wait()


def machine(host: str, pid: int, utilisation: int = 80) -> FakeMachine:
    """One GPU that the process is on, one that is cut, with the process on an instance, one that is free."""
    on_gpu, on_instance = FakeProcess(pid, 1024, utilisation, 30), FakeProcess(pid, 512)
    cut = (FakeInstance(1, slot=0, used_mib=512, processes=(on_instance,)), FakeInstance(9, slot=4, start=2, size=2, profile="2g.10gb", memory_mib=9856))
    whole = FakeGpu(uuid=f"GPU-{host}-0", used_mib=1100, utilisation=utilisation, power_w=250, temperature_c=61, processes=(on_gpu,))
    return FakeMachine((whole, FakeGpu(uuid=f"GPU-{host}-1", mig=True, instances=cut), FakeGpu(uuid=f"GPU-{host}-2")))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS) as server:
        yield server


class Host(Collector):
    """A host with an agent on it, and what the server says of it."""

    def __init__(self, folder: Path, live: LiveServer, name: str, pid: int) -> None:
        """`pid`: of the process that is on its GPUs."""
        self.name, self._client, self._pid, self._driver = name, live.client(), pid, FakeNvml(folder)
        super().__init__(folder, "agent", "--server", live.url, "--name", name, "--every", "0.5s", fake=self._driver)
        self.work(80)

    def work(self, percent: int) -> None:
        self._driver.write(machine(self.name, self._pid, percent))

    @property
    def key(self) -> str:
        return until(lambda: re.findall(rf"this is {self.name}, key (SHA256:\S+),", self.log), f"its key: {self.log}")[-1]

    @property
    def spool(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in sorted((self.folder / "data/node/spool").glob("*.jsonl")) for line in path.read_text().splitlines()]

    def asking(self) -> dict[str, Any] | None:
        return next((agent for agent in self._client.agents() if agent["name"] == self.name and agent["state"] == "waiting"), None)

    def node(self) -> dict[str, Any]:
        return next((node for node in self._client.nodes() if node["name"] == self.name), {"state": "unknown", "heard_at": None})

    def state(self) -> str:
        return str(self.node()["state"])

    def wait_for(self, state: str, limit_s: float = SOON_S) -> dict[str, Any]:
        return until(lambda: (node := self.node())["state"] == state and node, f"{self.name} to be {state}: {self.log[-2000:]}", limit_s)

    def heard_after(self, moment: datetime) -> bool:
        heard = self.node()["heard_at"]
        return heard is not None and datetime.fromisoformat(heard) > moment


@dataclass
class Lab:
    """Three hosts that the server knows. One of them dies and one is forgotten at once, while the others are looked at."""

    gpu07: Host
    dead: Host
    forgotten: Host
    died_s: float = 0.0
    was_free: tuple[bool, ...] = ()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, live: LiveServer, sleeper: Sleeper) -> Iterator[Lab]:
    hosts = [Host(tmp_path_factory.mktemp(name), live, name, sleeper.pid) for name in ("gpu07", "gpu08", "gpu09")]
    with hosts[0] as gpu07, hosts[1] as dead, hosts[2]:
        until(lambda: all(host.asking() for host in hosts), f"all to ask: {gpu07.log}", SOON_S)
        done = live.fairy("node", "accept", "--all", "--yes")
        assert (done.returncode, done.stdout.count("may report")) == (0, 3), done.stderr
        for host in hosts:
            host.wait_for("watched")
        made = Lab(*hosts, was_free=tuple(gpu["now"]["free"] for gpu in dead.node()["gpus"]))
        dead.kill()
        made.died_s = time.monotonic()
        assert live.fairy("node", "forget", "gpu09").returncode == 0
        yield made


def test_a_stranger_waits_until_an_admin_has_compared_its_key(tmp_path, live, lab, sleeper):
    with Host(tmp_path, live, "gpu01", sleeper.pid) as host:
        asking = until(host.asking, f"it to ask: {host.log}", SOON_S)
        assert asking["fingerprint"] == host.key
        assert host.key in live.fairy("node", "waiting").stdout
        assert f"an admin must accept this host: fairy node accept gpu01   (key {host.key})" in host.log
        done = live.fairy("node", "accept", "gpu01", "--key", "SHA256:another")
        assert done.returncode != 0
        assert host.key in done.stderr
        assert host.state() == "unknown"
        assert live.fairy("node", "accept", "gpu01", "--key", host.key).returncode == 0
        host.wait_for("watched")
        assert host.asking() is None


def test_its_gpus_instances_processes_and_users_are_shown(lab, sleeper):
    node = lab.gpu07.node()
    whole, cut, free = node["gpus"]
    assert (whole["kind"], whole["power_w"], whole["temperature_c"], whole["utilisation"]) == ("A100-40GB", 250, 61, pytest.approx(0.8))
    [process] = whole["processes"]
    wanted = {"pid": sleeper.pid, "command": "sleep", "user": "root", "known_by": "account", "outside": False, "memory_bytes": 2**30, "active": True}
    assert wanted.items() <= process.items()
    assert [(one["label"], one["profile"], [on["pid"] for on in one["processes"]], one["now"]["free"]) for one in cut["instances"]] == [
        ("1_1_0", "1g.5gb", [sleeper.pid], False), ("1_9_0", "2g.10gb", [], True),
    ]  # fmt: skip
    assert cut["instances"][0]["power_w"] is None, "its GPU's, not its own"
    assert (whole["now"]["free"], free["now"]["free"]) == (False, True)
    assert node["host"]["cpus"] >= 1
    assert node["driver"] == "580.159.04"


def test_smi_prints_instances_under_their_gpu_and_who_is_on_each(live, lab, sleeper):
    table = live.fairy("smi", "--node", "gpu07").stdout
    rows = [line.split() for line in table.splitlines()]
    labels = [row[1] if row[0] == "gpu07" and row[1] in "012" else row[0] for row in rows[1:]]
    assert labels == ["0", "1", "1_1_0", "1_9_0", "2"], table
    assert {"root", str(sleeper.pid), "sleep"} <= set(rows[1]) & set(rows[3]), table
    assert "free" in rows[4]
    assert "gpu07" not in live.fairy("smi", "--node", "box").stdout


def test_node_list_tells_watched_hosts_from_those_that_run_sessions(live, lab):
    listed = {line.split()[0]: line for line in live.fairy("node", "list").stdout.splitlines()}
    assert "watched by its agent; sessions are not started here" in listed["gpu07"]
    assert "ready" in listed["box"]
    assert lab.gpu07.node()["runs_sessions"] is False


def test_an_agent_killed_and_started_again_keeps_its_key_and_goes_on(lab):
    key = lab.gpu07.key
    lab.gpu07.kill()
    before = datetime.now(UTC)
    lab.gpu07.start()
    until(lambda: lab.gpu07.heard_after(before), "it to be heard again", SOON_S)
    assert (lab.gpu07.key, lab.gpu07.asking(), lab.gpu07.state()) == (key, None, "watched")


@pytest.fixture(scope="module")
def sessions(live: LiveServer, lab: Lab) -> dict[str, Fairy]:
    """Two people, each with a session that looks back at itself and at the other's until it has seen something."""
    people = {}
    for name, other in (("ann", "bob"), ("bob", "ann")):
        live.client().add_user({"name": name})
        people[name] = live.client(live.client().create_token({"user": name})["token"])
        people[name].submit({"name": f"of-{name}", "gpus": "1", "cpus": 1, "memory": "1GiB", "command": ["sh", "-c", LOOK_BACK.format(other=other)]})
    return people


LOOK_BACK = """
until fairy usage --session of-{other} > other.out 2> other.err; test $? -eq 4 && fairy usage --session $FAIRY_SESSION --json > own.json && grep -q gpus_held own.json && grep -q Z own.json; do sleep 0.5; done
cat own.json; cat other.err; fairy usage --session {other}+of-{other}; echo code $?; fairy usage --by user --json; test -n "$FAIRY_TOKEN_FILE" && echo by the token inside
"""


def test_a_session_sees_its_own_history_from_inside_and_nobody_elses(live, sessions):
    for name, other in (("ann", "bob"), ("bob", "ann")):
        ended = wait_for_state(sessions[name], f"of-{name}", "ENDED", limit_s=30)
        log = b"".join(sessions[name].logs(f"of-{name}")).decode()
        own, _, rest = log.partition("\n")
        seen = json.loads(own)
        assert ended["outcome"] == "done", log
        assert (seen["kind"], seen["name"], set(seen["columns"]["gpus_held"]["mean"]) - {None}) == ("session", f"of-{name}", {1.0})
        assert f"{name} has no session 'of-{other}'" in rest
        assert f"{name} has no session '{other}+of-{other}'" in rest
        assert "code 4" in rest
        assert other not in rest.rpartition("code 4")[2], "nor in what was used by whom"
        assert "by the token inside" in rest


def test_a_dead_host_is_silent_in_20_s_and_none_of_its_gpus_is_said_to_be_free(live, lab):
    node = lab.dead.wait_for("silent", SILENT_S - (time.monotonic() - lab.died_s))
    assert lab.was_free == (False, False, True), "before it died"
    assert node["gpus"] == []
    assert node["why"].startswith("no report since ")
    assert "gpu08: no report since" in live.fairy("smi").stdout
    assert "gpu08" not in live.fairy("smi", "--free").stdout.partition("gpu08:")[0]
    assert 'fairy_node_up{node="gpu08"} 0' in ask(live.url, "GET", "/metrics").body.decode()


def test_a_host_that_was_forgotten_is_refused_with_its_next_report(lab):
    until(lambda: "not signed by the agent of 'gpu09'" in lab.forgotten.log, f"it to be told: {lab.forgotten.log}", SOON_S)
    assert lab.forgotten.state() == "unknown"
    assert until(lab.forgotten.asking, "it to ask anew", SOON_S)["replaces"] is False


def test_what_a_killed_server_missed_arrives_when_it_is_back(live, lab):
    began = datetime.now(UTC)
    live.kill()
    lab.gpu07.work(40)
    kept = until(lambda: len(lab.gpu07.spool) >= 2 and lab.gpu07.spool, f"reports to be kept: {lab.gpu07.log[-2000:]}")
    assert {sample["node"] for sample in kept} == {"gpu07"}
    live.start()
    until(lambda: not lab.gpu07.spool and lab.gpu07.state() == "watched", f"reports to be delivered: {lab.gpu07.log[-2000:]}", 2 * SOON_S)
    found = live.client().readings("gpu", "GPU-gpu07-0", since=began.isoformat(), step="raw")
    used = found["columns"]["utilisation"]["mean"]
    times = [datetime.fromisoformat(moment) for moment in found["times"]]
    assert len(times) >= len(kept) + 1
    assert None not in used, "there is no hole"
    assert max((after - before).total_seconds() for before, after in pairwise(times)) < 2.5 * REPORT_EVERY_S
    assert used[-1] == pytest.approx(0.4, abs=0.01)
