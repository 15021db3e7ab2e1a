"""The rooms of many nodes as arrays, in the protocol of scenario_fit.py: what thousands of them have free is looked at in one go.

They are beside the exact rooms and tell only where a request may fit; whether it does a room says (fit.py). Nodes are in the order of
their names, and of their GPUs only those that are not in MIG mode are here, as devices.
"""
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.floor_log import ChangeLog
from gpufairy.core.node import Node, NodeState, Sharing
from gpufairy.core.placement_mix import WHOLE
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.share import PARTS

GRAIN = WHOLE // 100  # thousandths: a placer counts in hundredths, so what is free is told in those
NOT_HERE = -1  # parts of a GPU that is not there, or takes nobody now


@dataclass(frozen=True, slots=True)
class NodeModel:
    """Nodes of one model may be used by the same requests."""

    kinds: tuple[str, ...]  # of its GPUs that are not in MIG mode
    mig_kinds: tuple[str, ...]  # of the others
    pool: str | None

    @classmethod
    def of(cls, node: Node) -> "NodeModel":
        plain, mig = ({gpu.kind for gpu in node.gpus if (gpu.mig is None) is wanted} for wanted in (True, False))
        return cls(tuple(sorted(plain)), tuple(sorted(mig)), node.pool)

    @property
    def name(self) -> str:
        """As a placer knows it, to which MIG is nothing."""
        return f"{'+'.join(self.kinds)}@{self.pool or ''}"


class GpuNow(NamedTuple):
    """What of a GPU is open to somebody."""

    share: int  # the most that fits of both its parts and its memory
    parts: int
    memory: int
    whole: bool
    free: int  # parts, also where it takes nobody now

    @classmethod
    def of(cls, room: GpuRoom, *, guest: bool) -> "GpuNow":
        gpu, parts, memory = room.gpu, room.open_parts(guest), room.open_memory_bytes(guest)
        whole = parts == PARTS and memory >= gpu.memory_bytes and not gpu.mps_stays
        if room.other_way > 0 or (gpu.closed if gpu.sharing is Sharing.MPS and not gpu.simulated else gpu.mps_stays):
            return cls(NOT_HERE, NOT_HERE, memory, whole, max(0, parts))
        # Without a word about memory, as much of it is taken as of the GPU, rounded down: see fit.memory_on.
        return cls(min(parts, ((memory + 1) * PARTS - 1) // max(1, gpu.memory_bytes)), parts, memory, whole, max(0, parts))


class OpenGpus:
    """What of every GPU is open to one sort of visitor: everybody, or guests, who may also sit in what is lent."""

    def __init__(self, most_gpus: int, nodes: int) -> None:
        size = (most_gpus, nodes)  # [device, node]: a row is looked at in one go
        self.share = np.full(size, NOT_HERE, dtype=np.int32)
        self.parts, self.memory = np.full(size, NOT_HERE, dtype=np.int32), np.full(size, NOT_HERE, dtype=np.int64)
        self.whole = np.zeros(size, dtype=bool)
        self.largest, self.idle = np.full(nodes, NOT_HERE, dtype=np.int32), np.zeros(nodes, dtype=np.int32)  # share; whole ones
        self.total = np.zeros(nodes, dtype=np.int64)  # parts, also of GPUs that take nobody now
        self._shares, self._wholes, self._free = ([[empty] * most_gpus for _ in range(nodes)] for empty in (NOT_HERE, 0, 0))

    def note(self, device: int, node: int, seen: "GpuNow") -> None:
        self.share[device, node], self.parts[device, node], self.memory[device, node] = seen.share, seen.parts, seen.memory
        self.whole[device, node] = seen.whole
        self._shares[node][device], self._wholes[node][device], self._free[node][device] = seen.share, seen.whole, seen.free

    def sum_up(self, node: int) -> None:
        self.largest[node], self.idle[node], self.total[node] = max(self._shares[node]), sum(self._wholes[node]), sum(self._free[node])


class FloorArrays:
    def __init__(self, rooms: Sequence[Room]) -> None:
        nodes = [room.node for room in rooms]
        self.n = len(nodes)
        self.names = [node.name for node in nodes]
        found = [NodeModel.of(node) for node in nodes]
        self.models = list(dict.fromkeys(found))
        self.model = [model.name for model in found]
        self.model_number = np.array([self.models.index(model) for model in found], dtype=np.intp)
        # Of every device its place in the room.
        self.plain = [[place for place, gpu in enumerate(node.gpus) if gpu.mig is None] for node in nodes]
        self.gpu_count = np.array([len(places) for places in self.plain], dtype=np.int64)
        self.all_gpus = np.array([len(node.gpus) for node in nodes], dtype=np.int64)
        self.cpu_cap = np.array([node.cpus_milli for node in nodes], dtype=np.int64)
        self.mem_cap = np.array([node.memory_bytes for node in nodes], dtype=np.int64)
        self.ready = np.zeros(self.n, dtype=bool)
        coming = np.flatnonzero([node.coming_s is not None for node in nodes])
        self.coming: NDArray[np.intp] | None = coming if len(coming) else None  # nodes that are not there yet: tried when no other will do
        self.cpu_free, self.mem_free = self.cpu_cap.copy(), self.mem_cap.copy()
        self.cpu_open = self.cpu_cap.copy()  # as free, and less than nothing where the node is not ready
        most = int(self.gpu_count.max(initial=1))
        self.to_all = self.to_guests = OpenGpus(most, self.n)  # one and the same until somebody lends something
        self._milli = np.zeros((most, self.n), dtype=np.int64)
        self.gpu_free: NDArray[np.int64] = self._milli.T
        self._lay_out_kinds(nodes)
        self.log = ChangeLog()
        for place, room in enumerate(rooms):
            self.note(place, room)

    def _lay_out_kinds(self, nodes: Sequence[Node]) -> None:
        self.gpu_kinds = sorted({gpu.kind for node in nodes for gpu in node.gpus})
        number = {kind: place for place, kind in enumerate(self.gpu_kinds)}
        self.kind_number = np.zeros(self._milli.shape, dtype=np.intp)
        self.fgpu_parts = np.full(self._milli.shape, PARTS, dtype=np.int64)
        for place, node in enumerate(nodes):
            for device, at in enumerate(self.plain[place]):
                self.kind_number[device, place] = number[node.gpus[at].kind]
                self.fgpu_parts[device, place] = max(1, node.gpus[at].fgpu_parts)

    def note(self, node: int, room: Room) -> None:
        """All of a room is as it is now."""
        self.ready[node] = room.node.state is NodeState.READY
        self.note_seat(node, room, self.plain[node])

    def note_seat(self, node: int, room: Room, places: Iterable[int]) -> None:
        """Somebody came to these GPUs of it, or left them."""
        cpus = max(0, room.cpus_milli)
        self.cpu_free[node], self.mem_free[node] = cpus, max(0, room.memory_bytes)
        self.cpu_open[node] = cpus if self.ready[node] else -1
        plain, changed = self.plain[node], False
        for place in places:
            gpu = room.gpus[place]
            if gpu.gpu.mig is None:
                self._note_gpu(place if len(plain) == len(room.gpus) else plain.index(place), node, gpu)
                changed = True
        if changed:
            self.to_all.sum_up(node)
            if self.to_guests is not self.to_all:
                self.to_guests.sum_up(node)
        self.log.append(node)

    def _note_gpu(self, device: int, node: int, room: GpuRoom) -> None:
        seen = GpuNow.of(room, guest=False)
        self.to_all.note(device, node, seen)
        is_lent = room.lent_parts > 0 or room.lent_memory_bytes > 0
        if is_lent and self.to_guests is self.to_all:
            self.to_guests = deepcopy(self.to_all)
        if self.to_guests is not self.to_all:
            self.to_guests.note(device, node, GpuNow.of(room, guest=True) if is_lent else seen)
        self._milli[device, node] = WHOLE if seen.whole else min(WHOLE - GRAIN, hundredths(seen.share) * GRAIN)

    def tightest_gpu(self, node: int, milli: int) -> int:
        left = self._milli[: self.gpu_count[node], node]
        return int(np.where(left >= milli, left, WHOLE + 1).argmin())


def hundredths(parts: int) -> int:
    """To the nearest: three thirds are one GPU, which they would be neither rounded up nor down."""
    return max(0, (parts * 200 + PARTS) // (2 * PARTS))


def layout_of(node: Node) -> tuple[object, ...]:
    """What of a node the arrays are laid out by: if that changes, they are made anew."""
    gpus = tuple((gpu.uuid, gpu.kind, gpu.memory_bytes, gpu.fgpu_parts, gpu.mig is None) for gpu in node.gpus)
    return node.pool, node.cpus_milli, node.memory_bytes, gpus
