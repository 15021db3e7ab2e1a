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

from gpufairy.node.session_use import Counted, SessionUse, cpus_used
from waits import until

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


def test_a_process_that_ended_takes_nothing_back():
    before = Counted({(1, 10): 100.0, (2, 20): 50.0}, 0, at_s=0.0)
    assert cpus_used(before, Counted({(1, 10): 102.0}, 0, at_s=2.0)) == 1.0


def test_a_new_process_under_an_old_number_counts_from_its_own_beginning():
    before = Counted({(1, 10): 100.0}, 0, at_s=0.0)
    assert cpus_used(before, Counted({(1, 99): 1.0}, 0, at_s=2.0)) == 0.5


def test_a_clock_that_stands_still_tells_nothing():
    before = Counted({(1, 10): 100.0}, 0, at_s=5.0)
    assert cpus_used(before, before) is None


def test_a_session_without_processes_has_no_reading_and_one_that_is_gone_no_memory():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert SessionUse().read({"empty": []}) == ()
    [reading] = SessionUse().read({"gone": [gone.pid]})
    assert (reading.cpus, reading.memory_bytes) == (None, None)


@pytest.mark.system
def test_a_container_is_counted_as_a_whole(docker_daemon):
    """Also what its other processes take, though only one of its PIDs is told."""
    with by_hand(docker_daemon, "busy_whole", None, "sh", "-c", "while :; do :; done & wait") as container:
        use, pid = SessionUse(), pid_of(docker_daemon, container)
        assert use.read({"s": [pid]})[0].memory_bytes > 0
        found = until(lambda: next((reading for reading in use.read({"s": [pid]}) if (reading.cpus or 0) > 0.05), None), "its work to be seen")
        assert found.cpus < 2.5
