"""Room: what is free on a node, computed from what it has and the seats held there. A scratch value of one planning pass."""
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpufairy.core.mig import has_media
from gpufairy.core.node import Gpu, Node
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS


@dataclass(slots=True)
class GpuRoom:
    gpu: Gpu
    free_parts: int
    cut: tuple[tuple[int, int], ...] = ()  # MIG: (start, size) of what is held
    media: int = 0  # MIG: how many of them hold the media engines (+me), of which a GPU has one set

    def take(self, seat: GpuSeat) -> None:
        if self.gpu.mig is not None:
            self.cut = (*self.cut, (seat.start, seat.size))
            self.media += has_media(seat.profile)
        self.free_parts -= seat.parts

    def give_back(self, seat: GpuSeat) -> None:
        if self.gpu.mig is not None:
            self.cut = tuple(c for c in self.cut if c != (seat.start, seat.size))
            self.media -= has_media(seat.profile)
        self.free_parts += seat.parts


@dataclass(slots=True)
class Room:
    node: Node
    cpus_milli: int
    memory_bytes: int
    gpus: list[GpuRoom]

    @classmethod
    def empty(cls, node: Node) -> "Room":
        return cls(node, node.cpus_milli, node.memory_bytes, [GpuRoom(gpu, PARTS) for gpu in node.gpus])

    def copy(self) -> "Room":
        return replace(self, gpus=[replace(gpu) for gpu in self.gpus])

    def take(self, seat: Seat) -> None:
        self.cpus_milli -= seat.cpus_milli
        self.memory_bytes -= seat.memory_bytes
        for gpu in seat.gpus:
            self._gpu(gpu, GpuRoom.take)

    def give_back(self, seat: Seat) -> None:
        self.cpus_milli += seat.cpus_milli
        self.memory_bytes += seat.memory_bytes
        for gpu in seat.gpus:
            self._gpu(gpu, GpuRoom.give_back)

    def _gpu(self, seat: GpuSeat, deed: Callable[[GpuRoom, GpuSeat], None]) -> None:
        # A seat may name a GPU that is no longer there (pulled, or re-simulated): it then takes nothing here.
        for gpu in self.gpus:
            if gpu.gpu.uuid == seat.uuid:
                deed(gpu, seat)

    def shared_with(self, other: "Room") -> "Room":
        """What is free both here and there: the room of a seat that must do no harm to either."""
        gpus = [
            GpuRoom(mine.gpu, min(mine.free_parts, theirs.free_parts), (*mine.cut, *theirs.cut), max(mine.media, theirs.media))
            for mine, theirs in zip(self.gpus, other.gpus, strict=True)
        ]
        return Room(self.node, min(self.cpus_milli, other.cpus_milli), min(self.memory_bytes, other.memory_bytes), gpus)


def rooms(nodes: Iterable[Node], seats: Iterable[Seat]) -> dict[str, Room]:
    """The room of every node, less the seats held on it."""
    free = {node.name: Room.empty(node) for node in nodes}
    for seat in seats:
        if seat.node in free:
            free[seat.node].take(seat)
    return free
