"""Room: what is free on a node, computed from what it has and the seats held there. A scratch value of one planning pass.

An idle session may lend its GPUs: guests (preemptible sessions) then sit in them, and count against nobody else. A guest whose host has
left sits in what is free.
"""
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gpufairy.core.mig import has_media
from gpufairy.core.node import Gpu, Node
from gpufairy.core.session import GpuSeat, Seat, Session
from gpufairy.core.share import PARTS


class Sitter(Protocol):
    """Who has a seat: a session, or what planning keeps of one."""

    @property
    def seat(self) -> Seat | None: ...
    @property
    def is_lent(self) -> bool: ...


@dataclass(slots=True)
class GpuRoom:
    gpu: Gpu
    unheld_parts: int
    unheld_memory_bytes: int  # counts where it is not cut by MIG: there each instance has its own
    cut: tuple[tuple[int, int], ...] = ()  # MIG: (start, size) of what is held, in order, whoever came first
    media: int = 0  # MIG: how many of them hold the media engines (+me), of which a GPU has one set
    other_way: int = 0  # not MIG: how many on it share it in another way than it is shared now, beside whom nobody may be put
    lent_parts: int = 0  # less what guests have of it: below 0, so much of them sits in what nobody lends any more
    lent_memory_bytes: int = 0

    @property
    def free_parts(self) -> int:
        return self.unheld_parts + min(0, self.lent_parts)

    @property
    def free_memory_bytes(self) -> int:
        return self.unheld_memory_bytes + min(0, self.lent_memory_bytes)

    def open_parts(self, guest: bool) -> int:
        return self.unheld_parts + self.lent_parts if guest else self.free_parts

    def open_memory_bytes(self, guest: bool) -> int:
        return self.unheld_memory_bytes + self.lent_memory_bytes if guest else self.free_memory_bytes

    def take(self, seat: GpuSeat) -> None:
        if self.gpu.mig is not None:
            self.cut = tuple(sorted((*self.cut, (seat.start, seat.size))))
            self.media += has_media(seat.profile)
        self.other_way += self._in_another_way(seat)
        self._add(-seat.parts, -seat.memory_bytes, seat.borrowed)

    def give_back(self, seat: GpuSeat) -> None:
        if self.gpu.mig is not None:
            left = list(self.cut)
            left.remove((seat.start, seat.size))  # once: those who sat here before it was in MIG mode are all alike
            self.cut = tuple(left)
            self.media -= has_media(seat.profile)
        self.other_way -= self._in_another_way(seat)
        self._add(seat.parts, seat.memory_bytes, seat.borrowed)

    def lend(self, parts: int, memory_bytes: int) -> None:
        """What somebody who sits here lets others use; less than nothing: no longer."""
        self.lent_parts += parts
        self.lent_memory_bytes += memory_bytes

    def _add(self, parts: int, memory_bytes: int, borrowed: bool) -> None:
        if borrowed:
            self.lend(parts, memory_bytes)
            return
        self.unheld_parts += parts
        self.unheld_memory_bytes += memory_bytes

    def shared_with(self, other: "GpuRoom") -> "GpuRoom":
        return GpuRoom(
            self.gpu, min(self.unheld_parts, other.unheld_parts), min(self.unheld_memory_bytes, other.unheld_memory_bytes),
            (*self.cut, *other.cut), max(self.media, other.media), max(self.other_way, other.other_way),
            min(self.lent_parts, other.lent_parts), min(self.lent_memory_bytes, other.lent_memory_bytes),
        )  # fmt: skip

    def _in_another_way(self, seat: GpuSeat) -> bool:
        return self.gpu.mig is None and seat.sharing is not self.gpu.sharing and not self.gpu.simulated

    @property
    def is_free(self) -> bool:
        """Wholly: nobody has any of it."""
        return self.is_open(guest=False)

    def is_open(self, guest: bool) -> bool:
        return self.open_parts(guest) == PARTS and (self.gpu.mig is not None or self.open_memory_bytes(guest) >= self.gpu.memory_bytes)


@dataclass(slots=True)
class Room:
    node: Node
    cpus_milli: int
    memory_bytes: int
    gpus: list[GpuRoom]

    @classmethod
    def empty(cls, node: Node) -> "Room":
        return cls(node, node.cpus_milli, node.memory_bytes, [GpuRoom(gpu, PARTS, gpu.memory_bytes) for gpu in node.gpus])

    def copy(self) -> "Room":
        gpus = [
            GpuRoom(
                gpu.gpu, gpu.unheld_parts, gpu.unheld_memory_bytes, gpu.cut, gpu.media, gpu.other_way, gpu.lent_parts, gpu.lent_memory_bytes
            )
            for gpu in self.gpus
        ]  # fmt: skip
        return Room(self.node, self.cpus_milli, self.memory_bytes, gpus)

    def take(self, seat: Seat) -> None:
        self.cpus_milli -= seat.cpus_milli
        self.memory_bytes -= seat.memory_bytes
        for part in seat.gpus:
            if (place := self.place_of(part)) is not None:
                self.gpus[place].take(part)

    def sit(self, session: Sitter, sign: int = 1) -> None:
        """One who holds a seat here comes, or with -1 leaves, with what they lend."""
        if session.seat is None:
            return
        if sign > 0:
            self.take(session.seat)
        else:
            self.give_back(session.seat)
        for part in session.seat.gpus if session.is_lent else ():
            if not part.profile and (place := self.place_of(part)) is not None:
                self.gpus[place].lend(sign * part.parts, sign * part.memory_bytes)

    def give_back(self, seat: Seat) -> None:
        self.cpus_milli += seat.cpus_milli
        self.memory_bytes += seat.memory_bytes
        for part in seat.gpus:
            if (place := self.place_of(part)) is not None:
                self.gpus[place].give_back(part)

    def shrink_to(self, other: "Room", seat: Seat) -> None:
        """Takes from here what is not free there, where it was before somebody came to sit in `seat`."""
        self.cpus_milli, self.memory_bytes = min(self.cpus_milli, other.cpus_milli), min(self.memory_bytes, other.memory_bytes)
        for part in seat.gpus:
            if (place := self.place_of(part)) is not None:
                self.gpus[place] = self.gpus[place].shared_with(other.gpus[place])

    def place_of(self, seat: GpuSeat) -> int | None:
        """Where that GPU is in the list. None: it is no longer there (pulled, or re-simulated), and the seat takes nothing here."""
        if seat.index < len(self.gpus) and self.gpus[seat.index].gpu.uuid == seat.uuid:  # as nodes list them: saves the search
            return seat.index
        return next((place for place, gpu in enumerate(self.gpus) if gpu.gpu.uuid == seat.uuid), None)

    def shared_with(self, other: "Room") -> "Room":
        """What is free both here and there: the room of a seat that must do no harm to either."""
        gpus = [mine.shared_with(theirs) for mine, theirs in zip(self.gpus, other.gpus, strict=True)]
        return Room(self.node, min(self.cpus_milli, other.cpus_milli), min(self.memory_bytes, other.memory_bytes), gpus)


def rooms(nodes: Iterable[Node], holding: Iterable[Session]) -> dict[str, Room]:
    """The room of every node, less the seats held on it."""
    free = {node.name: Room.empty(node) for node in nodes}
    for session in holding:
        if session.seat is not None and session.seat.node in free:
            free[session.seat.node].sit(session)
    return free
