"""What each session takes of the host: of a container by the kernel's own account, of plain processes by adding them up."""
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpufairy.core.cgroup import containers_of
from gpufairy.core.node_sample import SessionReading
from gpufairy.node.cgroup_use import CgroupUse, use_of
from gpufairy.node.processes import TICKS_PER_S, cgroup_text, stat_of
from gpufairy.node.terminals import Terminals

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Place:
    """The container that a session is in, by its id, and by the text of the cgroup that one of its processes was seen in."""

    container_id: str
    cgroup_text: str


@dataclass(frozen=True, slots=True)
class ProcessKey:
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Counted:
    """`cpu_s` by what it was counted of, a container's id or a process: one that ended takes its time with it, and no other's."""

    cpu_s: Mapping[str | ProcessKey, float]
    memory_bytes: int | None
    at_s: float
    at_ticks: float = 0.0  # as the beginnings of processes are counted: since the host began


class SessionUse:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._before: dict[str, Counted] = {}
        self._places: dict[str, Place] = {}
        self._terminals = Terminals()
        self._around_us = frozenset(one.container_id for one in containers_of(cgroup_text(os.getpid())) if one.container_id)

    def read(self, pids: Mapping[str, Sequence[int]]) -> tuple[SessionReading, ...]:
        """`pids`: by session. One seen for the first time has used nobody knows how many CPUs."""
        self._places = {session: place for session, place in self._places.items() if session in pids}
        now = {session: self._count(session, of_it) for session, of_it in pids.items() if of_it}
        typed = self._terminals.typed_at({session: pids[session] for session in now})
        readings = tuple(
            SessionReading(name, cpus_used(self._before.get(name), one), one.memory_bytes, typed.get(name)) for name, one in now.items()
        )
        self._before = now
        return readings

    def _count(self, session: str, pids: Sequence[int]) -> Counted:
        now_s, now_ticks = self._monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_S
        place = self._places.get(session)
        use = CgroupUse() if place is None else use_of(place.cgroup_text, place.container_id)
        if use.cpu_s is None and (found := self._find_place(pids)) is not None:
            place = self._places[session] = found
            use = use_of(place.cgroup_text, place.container_id)
        if place is not None and use.cpu_s is not None:
            return Counted({place.container_id: use.cpu_s}, use.memory_bytes, now_s, now_ticks)
        if session in self._places:
            # Its processes, added up, would be another figure than the container's: what it took before would be counted once more.
            return Counted({}, use.memory_bytes, now_s, now_ticks)
        found_ones = list(processes(pids))
        memory_bytes = sum(memory for _, _, memory in found_ones) if found_ones else None
        return Counted({key: cpu_s for key, cpu_s, _ in found_ones}, memory_bytes, now_s, now_ticks)

    def _find_place(self, pids: Sequence[int]) -> Place | None:
        """By the first of its processes that has not ended since they were told. A container that we are in ourselves is no session's."""
        text = next((text for pid in pids if (text := cgroup_text(pid))), "")
        ids = (one.container_id for one in containers_of(text) if one.container_id and one.container_id not in self._around_us)
        return next((Place(container_id, text) for container_id in ids if use_of(text, container_id).cpu_s is not None), None)


def cpus_used(before: Counted | None, now: Counted) -> float | None:
    """Between the two. None: nothing was seen in both, so nobody can tell."""
    elapsed_s = 0.0 if before is None else now.at_s - before.at_s
    if before is None or elapsed_s <= 0:
        return None
    used = [spent for key, cpu_s in now.cpu_s.items() if (spent := _spent_s(before, key, cpu_s)) is not None]
    return sum(used) / elapsed_s if used else None


def _spent_s(before: Counted, key: str | ProcessKey, cpu_s: float) -> float | None:
    """Since then. None for one that is older, and was not counted then: it joined the session with the time of its whole life."""
    if key in before.cpu_s:
        return max(0.0, cpu_s - before.cpu_s[key])
    return cpu_s if isinstance(key, ProcessKey) and key.start_ticks >= before.at_ticks > 0 else None


def processes(pids: Sequence[int]) -> Iterator[tuple[ProcessKey, float, int]]:
    for pid in pids:
        stat = stat_of(pid)
        if stat is not None:
            yield ProcessKey(pid, stat.start_ticks), stat.cpu_ticks / TICKS_PER_S, stat.memory_pages * PAGE_BYTES
