"""What each session takes of the host: of a container by the kernel's own account, of plain processes by adding them up."""
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from gpufairy.core.cgroup import containers_of
from gpufairy.core.node_sample import SessionReading
from gpufairy.node.cgroup_use import CgroupUse, use_of
from gpufairy.node.processes import TICKS_PER_S, cgroup_text, stat_of
from gpufairy.node.session_count import Counted, Place, ProcessKey, cpus_used
from gpufairy.node.session_flow import NO_FLOW, SessionFlows
from gpufairy.node.terminals import Terminals

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class SessionUse:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._before: dict[str, Counted] = {}
        self._places: dict[str, Place] = {}
        self._terminals = Terminals()
        self._flows = SessionFlows()
        self._around_us = frozenset(one.container_id for one in containers_of(cgroup_text(os.getpid())) if one.container_id)

    def read(self, pids: Mapping[str, Sequence[int]]) -> tuple[SessionReading, ...]:
        """`pids`: by session. One seen for the first time has used nobody knows how many CPUs."""
        self._places = {session: place for session, place in self._places.items() if session in pids}
        now = {session: self._count(session, of_it) for session, of_it in pids.items() if of_it}
        typed = self._terminals.typed_at({session: pids[session] for session in now})
        flows = self._flows.read({session: pids[session] for session in now}, self._places)
        readings = tuple(
            SessionReading(name, cpus_used(self._before.get(name), one), one.memory_bytes, typed.get(name), *flows.get(name, NO_FLOW))
            for name, one in now.items()
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


def processes(pids: Sequence[int]) -> Iterator[tuple[ProcessKey, float, int]]:
    for pid in pids:
        stat = stat_of(pid)
        if stat is not None:
            yield ProcessKey(pid, stat.start_ticks), stat.cpu_ticks / TICKS_PER_S, stat.memory_pages * PAGE_BYTES
