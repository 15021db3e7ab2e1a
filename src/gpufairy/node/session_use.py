"""What each session takes of the host: of a container by the kernel's own account, of plain processes by adding them up."""
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import sysconf

from gpufairy.core.cgroup import containers_of
from gpufairy.core.node_sample import SessionReading
from gpufairy.node.processes import TICKS_PER_S, cgroup_text, stat_of
from gpufairy.node.sessions import CgroupUse, use_of

PAGE_BYTES = sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Counted:
    """`cpu_s` by what it was counted of: a process that ended takes its time with it, and no other's."""

    cpu_s: Mapping[object, float]
    memory_bytes: int | None
    at_s: float


class SessionUse:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._before: dict[str, Counted] = {}

    def read(self, pids: Mapping[str, Sequence[int]]) -> tuple[SessionReading, ...]:
        """`pids`: by session. One seen for the first time has used nobody knows how many CPUs."""
        now = {session: counted(of_it, self._monotonic()) for session, of_it in pids.items() if of_it}
        readings = tuple(SessionReading(name, cpus_used(self._before.get(name), one), one.memory_bytes) for name, one in now.items())
        self._before = now
        return readings


def cpus_used(before: Counted | None, now: Counted) -> float | None:
    elapsed_s = 0.0 if before is None else now.at_s - before.at_s
    if before is None or elapsed_s <= 0:
        return None
    return sum(max(0.0, cpu_s - before.cpu_s.get(key, 0.0)) for key, cpu_s in now.cpu_s.items()) / elapsed_s


def counted(pids: Sequence[int], now_s: float) -> Counted:
    text = cgroup_text(pids[0])
    chain = containers_of(text)
    container_id = chain[0].container_id if chain else None
    use = CgroupUse() if container_id is None else use_of(text, container_id)
    if use.cpu_s is not None:
        return Counted({container_id: use.cpu_s}, use.memory_bytes, now_s)
    found = list(processes(pids))
    return Counted({key: cpu_s for key, cpu_s, _ in found}, sum(memory for _, _, memory in found) if found else None, now_s)


def processes(pids: Sequence[int]) -> Iterator[tuple[tuple[int, int], float, int]]:
    for pid in pids:
        stat = stat_of(pid)
        if stat is not None:
            yield (pid, stat.start_ticks), stat.cpu_ticks / TICKS_PER_S, stat.memory_pages * PAGE_BYTES
