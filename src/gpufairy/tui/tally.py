"""Sums over GPUs, by user or by session: what is held, what is used, how much of it nobody can tell. Pure."""
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from gpufairy.client.gpu_rows import GpuRow, Held, OnGpu

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Amount:
    known: float | None = None  # None: nothing is known
    partly: bool = False  # some of it is not known, so there is more

    def plus(self, value: float | None) -> "Amount":
        if value is None:
            return Amount(self.known, partly=True)
        return Amount((self.known or 0.0) + value, self.partly)


@dataclass(slots=True)
class Tally:
    hosts: dict[str, None] = field(default_factory=dict)  # in the order in which they were met
    devices: dict[tuple[str, str], GpuRow] = field(default_factory=dict)  # by host and label
    held: float = 0.0  # in GPUs
    used: Amount = Amount()  # in GPUs
    memory_bytes: Amount = Amount()
    processes: int = 0
    outside: int = 0  # devices used that nobody handed out
    idle: int = 0  # devices that are taken, and nothing is computed there

    @property
    def utilisation(self) -> float | None:
        """Of what is held; of what is used without holding it, of all that it is on."""
        whole = self.held or sum(row.part for row in self.devices.values())
        return None if self.used.known is None or self.used.partly or not whole else min(1.0, self.used.known / whole)

    def meet(self, row: GpuRow) -> None:
        self.hosts[row.node] = None
        self.devices[row.node, row.label] = row


def tallies(
    rows: Iterable[GpuRow], holder_key: Callable[[GpuRow, Held], Key], process_key: Callable[[GpuRow, OnGpu], Key | None]
) -> dict[Key, Tally]:
    """`process_key`: None for a process that is not counted."""
    found: dict[Key, Tally] = {}
    for row in rows:
        processes: dict[Key, list[OnGpu]] = {}
        for one in row.on_it:
            if one.pid is not None and (key := process_key(row, one)) is not None:
                processes.setdefault(key, []).append(one)
        for held in row.held:
            key = holder_key(row, held)
            tally = found.setdefault(key, Tally())
            tally.held += held.share or 0.0
            if not row.cut:  # of a cut GPU its instances are met, by their processes
                tally.meet(row)
                if key not in processes:
                    tally.used = tally.used.plus(0.0 if row.processes_known and row.free is not None else None)
            else:
                tally.hosts[row.node] = None
        for key, own in processes.items():
            _count(found.setdefault(key, Tally()), row, own, alone=_users_on(row) == 1)
    return found


def _users_on(row: GpuRow) -> int:
    return len({one.user for one in row.on_it if one.pid is not None})


def _count(tally: Tally, row: GpuRow, own: list[OnGpu], *, alone: bool) -> None:
    tally.meet(row)
    tally.processes += len(own)
    tally.outside += any(one.outside for one in own)
    tally.idle += all(one.active is False for one in own)
    for one in own:
        tally.memory_bytes = tally.memory_bytes.plus(one.memory_bytes)
    used = _used(row, own, alone=alone)
    tally.used = tally.used.plus(None if used is None else used * row.part)


def _used(row: GpuRow, own: list[OnGpu], *, alone: bool) -> float | None:
    """Under MIG nobody counts by process: who is alone there uses what the instance does."""
    busy = [one.utilisation for one in own if one.utilisation is not None]
    if len(busy) == len(own):
        return min(1.0, sum(busy))
    return row.utilisation if alone else None
