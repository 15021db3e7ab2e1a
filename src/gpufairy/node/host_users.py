"""What each user's processes take of a host: one pass over /proc each few seconds, since it is the dearest of all readings."""
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.core.host_reading import UserLoad
from gpufairy.node.processes import TICKS_PER_S, stat_of

EVERY_S = 4.5  # five, on a beat of seconds: half a second early is better than a whole beat late
MOST_OF_A_CPU = 0.003  # where a pass is dear (thousands of processes), passes come more seldom
KERNEL = 2  # the parent of all threads of the kernel
ANEW_EVERY = 12  # passes: so long a number is taken to be the kernel's without being read, and a process to be the same user's
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MOST_USERS = 200


@dataclass(slots=True)
class _Sum:
    processes: int = 0
    cpu_ticks: int = 0
    memory_pages: int = 0


class UserLoads:
    """Memory is resident memory: what processes share is counted for each. CPU of those that ended since the last look is lost."""

    def __init__(self, proc: str, account: Callable[[int], str], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._account, self._monotonic = proc, account, monotonic
        self._looked_s: float | None = None
        self._every_s = EVERY_S
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}  # by (PID, start): ticks used so far, uid
        self._kernel: set[str] = set()
        self._passes = 0
        self._loads: tuple[UserLoad, ...] = ()

    def read(self) -> tuple[UserLoad, ...]:
        now_s = self._monotonic()
        if self._looked_s is None or now_s - self._looked_s >= self._every_s:
            since_s = None if self._looked_s is None else now_s - self._looked_s
            self._looked_s, began_s = now_s, time.thread_time()
            self._loads = self._look(since_s)
            self._every_s = max(EVERY_S, (time.thread_time() - began_s) / MOST_OF_A_CPU)
        return self._loads

    def _look(self, since_s: float | None) -> tuple[UserLoad, ...]:
        sums: dict[str, _Sum] = {}
        for uid, found in self._sums_by_uid().items():
            whole = sums.setdefault(self._account(uid), _Sum())  # the uids lent to somebody's containers are theirs
            whole.processes += found.processes
            whole.cpu_ticks += found.cpu_ticks
            whole.memory_pages += found.memory_pages
        loads = [
            UserLoad(user, one.processes, None if since_s is None else one.cpu_ticks / TICKS_PER_S / since_s, one.memory_pages * PAGE_BYTES)
            for user, one in sums.items()
        ]
        return tuple(sorted(loads, key=lambda load: (-load.memory_bytes, load.user))[:MOST_USERS])

    def _sums_by_uid(self) -> dict[int, _Sum]:
        self._passes += 1
        anew = self._passes % ANEW_EVERY == 0
        if anew:
            self._kernel.clear()
        before, self._seen = self._seen, {}
        sums: dict[int, _Sum] = {}
        for name in os.listdir(self._proc):
            if not name.isdecimal() or name in self._kernel or (stat := stat_of(int(name), self._proc)) is None:
                continue
            if stat.parent == KERNEL:
                self._kernel.add(name)
                continue
            ticks, known_uid = before.get((int(name), stat.start_ticks), (0, None))
            uid = self._uid(name) if known_uid is None or anew else known_uid
            if uid is None:
                continue
            self._seen[int(name), stat.start_ticks] = stat.cpu_ticks, uid
            one = sums.setdefault(uid, _Sum())
            one.processes += 1
            one.cpu_ticks += max(0, stat.cpu_ticks - ticks)
            one.memory_pages += stat.memory_pages
        return sums

    def _uid(self, name: str) -> int | None:
        try:
            return os.stat(f"{self._proc}/{name}").st_uid
        except OSError:  # it has just ended
            return None
