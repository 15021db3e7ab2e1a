"""Whether anybody types in a session: told by the kernel's own times of its terminals, and not known where they cannot be looked at."""
import os
import pty
import time
from collections.abc import Iterator

import pytest

from gpufairy.node.processes import stat_of
from gpufairy.node.terminals import LOOK_EVERY_S, TYPED_WITHIN_S, Terminals, last_read_s, terminals_of
from waits import until

pytestmark = pytest.mark.system


@pytest.fixture
def shell() -> Iterator[tuple[int, int]]:
    """The PID of a program that reads from a terminal of its own, and our end of that."""
    pid, end = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    try:
        until(lambda: (stat := stat_of(pid)) is not None and stat.command == b"cat", "cat to run")
        yield pid, end
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(end)


def test_what_is_typed_is_seen_for_half_a_minute(shell: tuple[int, int]):
    pid, end = shell
    os.write(end, b"hello\n")
    until(lambda: os.read(end, 100) != b"", "its echo")
    assert Terminals().typed_at({"s": [pid]}) == {"s": True}
    assert Terminals(wall=lambda: time.time() + TYPED_WITHIN_S + 9).typed_at({"s": [pid]}) == {"s": False}
    assert Terminals(wall=lambda: time.time() - 3600).typed_at({"s": [pid]}) == {"s": True}  # the clock was set back: who knows


def test_a_session_without_a_terminal_is_typed_in_by_nobody():
    assert Terminals().typed_at({"s": []}) == {"s": False}


def test_it_looks_now_and_then_only(shell: tuple[int, int]):
    now = [0.0]
    terminals = Terminals(monotonic=lambda: now[0])
    assert terminals.typed_at({"s": []}) == {"s": False}
    assert terminals.typed_at({"s": [shell[0]]}) == {"s": False}
    now[0] += LOOK_EVERY_S
    assert terminals.typed_at({"s": [shell[0]]}) == {"s": True}


def test_a_terminal_that_is_not_there_is_not_known(shell: tuple[int, int]):
    (terminal,) = terminals_of([shell[0]])
    assert last_read_s(shell[0], terminal) is not None
    assert last_read_s(shell[0], os.makedev(136, 4000)) is None
    assert last_read_s(2**22 + 1, terminal) is None
