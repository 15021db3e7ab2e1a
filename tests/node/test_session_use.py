"""What a session takes of the host: of plain processes by adding them up, of a container by the kernel's account."""
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from container_scene import by_hand, pid_of

from gpufairy.node.cgroup_use import use_of
from gpufairy.node.processes import cgroup_text
from gpufairy.node.session_use import Counted, ProcessKey, SessionUse, cpus_used
from waits import until

A = "a" * 64
BUSY = "while True: pass"
IDLE = "import sys; held = bytearray(50_000_000); sys.stdin.read()"


@contextmanager
def running(*programs: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    started = [subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) for program in programs]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_first_look_knows_memory_and_no_cpus():
    with running(IDLE) as [process]:
        until(lambda: SessionUse().read({"s": [process.pid]})[0].memory_bytes > 40_000_000, "its memory")
        assert SessionUse().read({"s": [process.pid]})[0].cpus is None


def test_busy_processes_are_added_up():
    with running(BUSY, BUSY) as busy, running(IDLE) as idle:
        pids = {"busy": [process.pid for process in busy], "idle": [process.pid for process in idle]}
        use, began_s = SessionUse(), time.monotonic()
        use.read(pids)
        before = sum(map(cpu_s, pids["busy"]))
        until(lambda: sum(map(cpu_s, pids["busy"])) > before + 0.5, "them to work")
        found = {reading.session_id: reading for reading in use.read(pids)}
        least = 0.4 / (time.monotonic() - began_s)
        assert least < found["busy"].cpus < 2.5
        assert found["idle"].cpus < found["busy"].cpus / 2


OLD, NEW = ProcessKey(1, 10), ProcessKey(2, 2000)


def test_a_process_that_ended_takes_nothing_back():
    before = Counted({OLD: 100.0, NEW: 50.0}, 0, at_s=0.0, at_ticks=1000)
    assert cpus_used(before, Counted({OLD: 102.0}, 0, at_s=2.0)) == 1.0


def test_a_process_that_began_since_counts_from_its_own_beginning():
    before = Counted({OLD: 100.0}, 0, at_s=0.0, at_ticks=1000)
    assert cpus_used(before, Counted({NEW: 1.0}, 0, at_s=2.0)) == 0.5
    assert cpus_used(before, Counted({ProcessKey(1, 2000): 1.0}, 0, at_s=2.0)) == 0.5, "also under an old number"


def test_an_old_process_that_joins_counts_from_now():
    before = Counted({OLD: 100.0}, 0, at_s=0.0, at_ticks=1000)
    assert cpus_used(before, Counted({OLD: 101.0, ProcessKey(3, 500): 410_823.0}, 0, at_s=1.0)) == 1.0
    assert cpus_used(before, Counted({ProcessKey(3, 500): 410_823.0}, 0, at_s=1.0)) is None


def test_what_is_counted_in_another_way_is_not_compared():
    before = Counted({A: 1000.0}, 0, at_s=0.0, at_ticks=1000)
    assert cpus_used(before, Counted({OLD: 2000.0}, 0, at_s=1.0)) is None
    assert cpus_used(before, Counted({"b" * 64: 5000.0}, 0, at_s=1.0)) is None


def test_nothing_read_is_nothing_known():
    before = Counted({OLD: 100.0}, 0, at_s=0.0, at_ticks=1000)
    assert cpus_used(before, Counted({}, None, at_s=2.0)) is None


def test_a_clock_that_stands_still_tells_nothing():
    before = Counted({OLD: 100.0}, 0, at_s=5.0)
    assert cpus_used(before, before) is None


def a_dead_pid() -> int:
    gone = subprocess.Popen(["true"])
    gone.wait()
    return gone.pid


@pytest.mark.slow
def test_a_process_of_long_ago_brings_nothing_of_its_past_into_a_session():
    with running(BUSY) as [busy], running(IDLE) as [idle]:
        until(lambda: cpu_s(busy.pid) > 0.5, "it to have a past")
        use = SessionUse(monotonic=iter([0.0, 0.001, 0.002]).__next__)
        use.read({"s": [idle.pid]})
        assert use.read({"s": [idle.pid, busy.pid]})[0].cpus < 100


def test_processes_that_all_ended_leave_the_cpus_unknown():
    with running(IDLE) as [process]:
        use = SessionUse()
        use.read({"s": [process.pid]})
    assert use.read({"s": [process.pid]})[0].cpus is None


def test_a_session_without_processes_has_no_reading_and_one_that_is_gone_no_memory():
    assert SessionUse().read({"empty": []}) == ()
    [reading] = SessionUse().read({"gone": [a_dead_pid()]})
    assert (reading.cpus, reading.memory_bytes) == (None, None)


def worked(pid: int, container_id: str) -> None:
    """Returns when the container of that process has taken half a second more of the CPUs: in less, a busy machine's delays count too much."""
    text = cgroup_text(pid)
    before_s = use_of(text, container_id).cpu_s
    until(lambda: use_of(text, container_id).cpu_s > before_s + 0.5, "it to work")


@pytest.mark.system
def test_a_container_is_counted_as_a_whole(docker_daemon):
    """Also what its other processes take, though only one of its PIDs is told."""
    with by_hand(docker_daemon, "busy_whole", None, "sh", "-c", "while :; do :; done & wait") as container:
        use, pid = SessionUse(), pid_of(docker_daemon, container)
        assert use.read({"s": [pid]})[0].memory_bytes > 0
        worked(pid, container)
        assert 0.02 < use.read({"s": [pid]})[0].cpus < 2.5


@pytest.mark.system
def test_a_container_is_counted_as_before_though_the_processes_that_were_told_have_ended(docker_daemon):
    with by_hand(docker_daemon, "busy_on", None, "sh", "-c", "while :; do :; done & wait") as container:
        use, pid, dead = SessionUse(), pid_of(docker_daemon, container), a_dead_pid()
        assert use.read({"s": [dead, pid]})[0].memory_bytes > 0
        for told in ([dead, pid], [dead]):
            worked(pid, container)
            assert 0.02 < use.read({"s": told})[0].cpus < 2.5
    assert use.read({"s": [pid]})[0].cpus is None, "it is gone, and its processes are not added up in its place"
