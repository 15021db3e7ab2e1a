"""Room: what is free on a node, computed from what it has and the seats held there. A scratch value of one planning pass."""
from collections.abc import Iterable
from dataclasses import dataclass

from gpufairy.core.mig import has_media
from gpufairy.core.node import Gpu, Node
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS


@dataclass(slots=True)
class GpuRoom:
    gpu: Gpu
    free_parts: int
    free_memory_bytes: int  # counts where it is not cut by MIG: there each instance has its own
    cut: tuple[tuple[int, int], ...] = ()  # MIG: (start, size) of what is held
    media: int = 0  # MIG: how many of them hold the media engines (+me), of which a GPU has one set
    other_way: int = 0  # not MIG: how many on it share it in another way than it is shared now, beside whom nobody may be put

    def take(self, seat: GpuSeat) -> None:
        if self.gpu.mig is not None:
            self.cut = (*self.cut, (seat.start, seat.size))
            self.media += has_media(seat.profile)
        self.other_way += self._in_another_way(seat)
        self.free_parts -= seat.parts
        self.free_memory_bytes -= seat.memory_bytes

    def give_back(self, seat: GpuSeat) -> None:
        if self.gpu.mig is not None:
            self.cut = tuple(c for c in self.cut if c != (seat.start, seat.size))
            self.media -= has_media(seat.profile)
        self.other_way -= self._in_another_way(seat)
        self.free_parts += seat.parts
        self.free_memory_bytes += seat.memory_bytes

    def shared_with(self, other: "GpuRoom") -> "GpuRoom":
        return GpuRoom(
            self.gpu, min(self.free_parts, other.free_parts), min(self.free_memory_bytes, other.free_memory_bytes),
            (*self.cut, *other.cut), max(self.media, other.media), max(self.other_way, other.other_way),
        )  # fmt: skip

    def _in_another_way(self, seat: GpuSeat) -> bool:
        return self.gpu.mig is None and seat.sharing is not self.gpu.sharing and not self.gpu.simulated

    @property
    def is_free(self) -> bool:
        """Wholly: nobody has any of it."""
        return self.free_parts == PARTS and (self.gpu.mig is not None or self.free_memory_bytes >= self.gpu.memory_bytes)


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
        gpus = [GpuRoom(gpu.gpu, gpu.free_parts, gpu.free_memory_bytes, gpu.cut, gpu.media, gpu.other_way) for gpu in self.gpus]
        return Room(self.node, self.cpus_milli, self.memory_bytes, gpus)

    def take(self, seat: Seat) -> None:
        self.cpus_milli -= seat.cpus_milli
        self.memory_bytes -= seat.memory_bytes
        for part in seat.gpus:
            if (place := self.place_of(part)) is not None:
                self.gpus[place].take(part)

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


def rooms(nodes: Iterable[Node], seats: Iterable[Seat]) -> dict[str, Room]:
    """The room of every node, less the seats held on it."""
    free = {node.name: Room.empty(node) for node in nodes}
    for seat in seats:
        if seat.node in free:
            free[seat.node].take(seat)
    return free
