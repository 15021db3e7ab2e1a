"""The clock on the wall jumps by hours, days and years, both ways, under a running server: nobody's time is up early, no second is negative."""
import contextlib
import shutil
import sqlite3
import struct
import subprocess
import time
from pathlib import Path

import pytest
from bench.server import LiveServer

from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
JUMPS = (HOUR, -HOUR, DAY, -DAY, 3 * YEAR, -YEAR)  # from the true time each


class Clock:
    """The server's clock on the wall. Its steady clock goes on as it is: the kernel's never jumps."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.is_wrong_by(0)

    def is_wrong_by(self, seconds: int) -> None:
        """In place: the server has it mapped."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("l", seconds))


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no cc: apt-get install gcc libc6-dev")
    made = tmp_path_factory.mktemp("clock") / "wall_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(made), str(Path(__file__).with_name("wall_clock.c"))], check=True)
    return made


@pytest.fixture
def jumping(tmp_path, library):
    live = LiveServer(tmp_path / "fairy")
    clock = Clock(tmp_path / "clock")
    live.env |= {"LD_PRELOAD": str(library), "WALL_CLOCK": str(tmp_path / "clock")}
    with live as server:
        yield server, clock
        clock.is_wrong_by(0)


def test_no_session_ends_early_and_no_second_is_negative_when_the_clock_jumps(jumping):
    server, clock = jumping
    client, began = server.client(), time.monotonic()
    client.submit({"name": "limited", "gpus": "0.5", "time": "30m", "command": ["sleep", "3600"]})
    client.submit({"name": "short", "gpus": "0", "time": "25s", "command": ["sleep", "3600"]})
    for name in ("limited", "short"):
        wait_for_state(client, name, "RUNNING")
    for number, jump_s in enumerate(JUMPS):
        clock.is_wrong_by(jump_s)
        seen = client.submit({"name": f"then-{number}", "gpus": "0.25", "command": ["sh", "-c", "date +%s"]})
        ended = wait_for_state(client, f"then-{number}", "ENDED")
        assert (ended["outcome"], ended["id"]) == ("done", seen["id"])
        assert wait_for_state(client, "limited", "RUNNING")["attempt"] == 1
        assert {node["state"] for node in client.nodes()} == {"ready"}, f"a node is dead by a jump of {jump_s} s"
        if time.monotonic() - began < 20:
            assert client.session("short")["state"] == "RUNNING", f"its time was up early, by a jump of {jump_s} s"
    clock.is_wrong_by(0)
    ended = wait_for_state(client, "short", "ENDED", limit_s=60)
    assert "time" in ended["why"]
    assert time.monotonic() - began > 24, "its 25 s were up early"
    client.stop("limited")
    wait_for_state(client, "limited", "ENDED")
    took_s = time.monotonic() - began
    check_held(server.data / "fairy.db", took_s)


def check_held(file: Path, took_s: float) -> None:
    """By the tables themselves: what was held is held from a start to an end that is not before it, and not for longer than all of this took."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        rows = database.execute("select session_id, until - since from holds").fetchall()
    assert rows, "nothing was written down as held"
    for session_id, held_us in rows:
        assert 0 <= held_us <= (took_s + 2) * 1e6, session_id


def test_a_clock_that_was_wrong_at_the_start_and_is_put_right_keeps_what_runs(jumping):
    server, clock = jumping
    clock.is_wrong_by(-YEAR)
    server.stop()
    server.start()
    client = server.client()
    client.submit({"name": "long", "gpus": "0.5", "time": "1h", "command": ["sleep", "3600"]})
    wait_for_state(client, "long", "RUNNING")
    clock.is_wrong_by(0)
    server.kill()
    server.start()
    client = server.client()
    assert wait_for_state(client, "long", "RUNNING")["attempt"] == 1
    until(lambda: client.submit({"gpus": "0", "command": ["true"]}), "a submit to be taken")
    assert client.session("long")["state"] == "RUNNING", "a year's jump at a restart ended it"
