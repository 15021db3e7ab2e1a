"""Whether anybody types in a session: when the terminals of its processes were last read from, as `w` tells it.

The kernel keeps that time for every terminal, to eight seconds, whichever way somebody came in.
"""
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from gpufairy.node.processes import stat_of

LOOK_EVERY_S = 10.0
TYPED_WITHIN_S = 30.0  # three looks: a word typed between two of them is not missed
MOST_PROCESSES = 256  # of one session: shells come before what they start, and a fork bomb must not cost a look at each
PTS_MAJORS = range(136, 144)


class Terminals:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._looked_s = float("-inf")
        self._typed: dict[str, bool | None] = {}

    def typed_at(self, pids: Mapping[str, Sequence[int]]) -> Mapping[str, bool | None]:
        """By session: whether somebody typed in it of late; None: a terminal of it cannot be looked at. Looks now and then only."""
        now_s = self._monotonic()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._typed = {session: self._typed_in(of_it) for session, of_it in pids.items()}
        return self._typed

    def _typed_in(self, pids: Sequence[int]) -> bool | None:
        read_at = [last_read_s(pid, terminal) for terminal, pid in terminals_of(pids).items()]
        # From the future: the clock was set back, and nobody can tell; it counts as typed, so that nobody looks idle for it.
        if any(at is not None and self._wall() - at < TYPED_WITHIN_S for at in read_at):
            return True
        return None if None in read_at else False


def terminals_of(pids: Iterable[int]) -> dict[int, int]:
    """By device number, with one process that has it."""
    found: dict[int, int] = {}
    for pid in sorted(pids)[:MOST_PROCESSES]:
        process = stat_of(pid)
        if process is not None and os.major(process.terminal) in PTS_MAJORS:
            found.setdefault(process.terminal, pid)
    return found


def last_read_s(pid: int, terminal: int) -> float | None:
    """Since 1970. Step by step and without following links: what lies below a session's root is what its owner put there."""
    opened: list[int] = []
    try:
        for name in (f"/proc/{pid}/root", "dev", "pts"):
            flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if opened else 0)
            opened.append(os.open(name, flags, dir_fd=opened[-1] if opened else None))
        found = os.stat(str(os.minor(terminal)), dir_fd=opened[-1], follow_symlinks=False)
    except OSError:  # it has just ended, or we may not look
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return found.st_atime if stat.S_ISCHR(found.st_mode) and found.st_rdev == terminal else None
