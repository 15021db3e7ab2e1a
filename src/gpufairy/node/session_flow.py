"""What each session moves from and to disks and the network, and how long it stood still for a disk. By the kernel's own accounts."""
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpufairy.node.cgroup_use import io_of
from gpufairy.node.host_files import read_text
from gpufairy.node.processes import TICKS_PER_S, stat_of
from gpufairy.node.session_count import Counted, Key, Place, ProcessKey, cpus_used

BLOCKED = b"D"  # how the kernel writes the state of a process that waits for a disk
MOST_PROCESSES = 64  # of one session that are looked into each time: what a data loader has, many times over


class Flow(NamedTuple):
    """In the order of SessionReading."""

    read_bytes_per_s: float | None = None
    written_bytes_per_s: float | None = None
    received_bytes_per_s: float | None = None
    sent_bytes_per_s: float | None = None
    io_waited: float | None = None


NO_FLOW = Flow()
Counters = tuple[Mapping[Key, float], ...]  # of the fields of a Flow, each by what it was counted of


class SessionFlows:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._before: dict[str, tuple[Counted, ...]] = {}
        self._shared_networks = frozenset(filter(None, (network_of(1), network_of(os.getpid()))))

    def read(self, pids: Mapping[str, Sequence[int]], places: Mapping[str, Place]) -> dict[str, Flow]:
        now: dict[str, tuple[Counted, ...]] = {}
        found = {}
        for session, of_it in pids.items():
            at_s, at_ticks = self._monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_S
            counters, blocked = self._count(of_it[:MOST_PROCESSES], places.get(session))
            now[session] = tuple(Counted(of_one, None, at_s, at_ticks) for of_one in counters)
            befores = self._before.get(session, (None,) * len(counters))
            read, written, received, sent, waited = (cpus_used(before, one) for before, one in zip(befores, now[session], strict=True))
            found[session] = Flow(read, written, received, sent, blocked if waited is None else min(1.0, waited))
        self._before = now
        return found

    def _count(self, pids: Sequence[int], place: Place | None) -> tuple[Counters, float | None]:
        """And whether any of its programs waits for a disk at this moment: for kernels that do not count for how long."""
        received, sent = self._network(pids)
        if place is not None:
            io = io_of(place.cgroup_text, place.container_id)
            read, written, waited = (_of(place, value) for value in (io.read_bytes, io.written_bytes, io.waited_s))
            if read:
                return (read, written, received, sent, waited), None if waited else is_blocked(pids)
        read, written = by_process(pids)
        return (read, written, received, sent, {}), is_blocked(pids)

    def _network(self, pids: Iterable[int]) -> tuple[Mapping[Key, float], Mapping[Key, float]]:
        """Of one with a network of its own."""
        for pid in pids:
            name = network_of(pid)
            if name is None:
                continue
            if name in self._shared_networks:
                break
            rows = [line.rpartition(":") for line in read_text(f"/proc/{pid}/net/dev").split("\n")]
            counts = [rest.split() for device, colon, rest in rows if colon and device.strip() != "lo"]
            good = [row for row in counts if len(row) >= 16]
            return {name: float(sum(int(row[0]) for row in good))}, {name: float(sum(int(row[8]) for row in good))}
        return {}, {}


def _of(place: Place, value: float | None) -> Mapping[Key, float]:
    return {} if value is None else {place.container_id: float(value)}


def network_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def by_process(pids: Iterable[int]) -> tuple[Mapping[Key, float], Mapping[Key, float]]:
    """Bytes read from disks and written to them; of those that let us look."""
    read: dict[Key, float] = {}
    written: dict[Key, float] = {}
    for pid in pids:
        stat, rows = stat_of(pid), dict(line.partition(": ")[::2] for line in read_text(f"/proc/{pid}/io").split("\n"))
        if stat is not None and rows.get("read_bytes", "").isdecimal() and rows.get("write_bytes", "").isdecimal():
            key = ProcessKey(pid, stat.start_ticks)
            read[key], written[key] = float(rows["read_bytes"]), float(rows["write_bytes"])
    return read, written


def is_blocked(pids: Iterable[int]) -> float | None:
    states = [stat.state for pid in pids if (stat := stat_of(pid)) is not None]
    return float(BLOCKED in states) if states else None
