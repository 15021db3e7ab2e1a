"""What a node may look like, numbered: so that the worth of many nodes, before and after a pod, is one look-up in an array.

A room is a class and a bag of leftovers. Its bag is written as one whole number, a few bits a level, so that taking
a share of one device is one addition. Rooms are met as they come; nothing is worked out that nobody asked for.
"""
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.placement_worth import DEVICE_GRAINS, GRAIN_MILLI, ClassWorth

NOWHERE = 0  # the first row of the table: where a pod does not fit
LOST = -(2**28)  # the worth of a room that cannot be; far below all others, and sums with it stay in 32 bits
UNKNOWN = -1
MOST_ROOMS = 30_000  # names of rooms; then they are forgotten and met anew: some tens of megabytes


class Taking(NamedTuple):
    """What a pod takes of the devices of a node, in grains."""

    gpus: int  # whole ones
    device: int  # grains of one device; 0: none

    @classmethod
    def of(cls, num_gpu: int, gpu_milli: int) -> "Taking":
        grains = -(-gpu_milli // GRAIN_MILLI)
        if num_gpu == 1 and grains < DEVICE_GRAINS:
            return cls(0, max(grains, 1))
        return cls(num_gpu, 0)


@dataclass(frozen=True, slots=True)
class Room:
    bag: int
    idle: int
    grains: tuple[int, ...]  # of the devices, each once, ascending
    of_class: int
    row: int  # where its worth by free host grains begins


class Rooms:
    def __init__(self, classes: Sequence[ClassWorth], most_gpus: int, host_grains: int) -> None:
        self._classes = classes
        self._bits = max(most_gpus, 1).bit_length()
        self._columns = max(most_gpus, 1)
        self._units = [self._units_of(one) for one in classes]
        self._tags = [place << (self._bits * (DEVICE_GRAINS + 1)) for place in range(len(classes))]
        self._width = host_grains + 1
        self.worth = np.full(512 * self._width, LOST, dtype=np.int32)  # row after row
        self._rows: dict[int, int] = {}
        self.rooms: list[Room] = []
        self._number: dict[tuple[int, tuple[int, ...]], int] = {}
        self._after: dict[Taking, NDArray[np.int32]] = {}

    @property
    def is_full(self) -> bool:
        return len(self._number) >= MOST_ROOMS

    def number(self, of_class: int, left_milli: tuple[int, ...]) -> int:
        """Of the room with these leftovers, in any order."""
        key = (of_class, left_milli)
        found = self._number.get(key)
        if found is None:
            grains = tuple(sorted(left // GRAIN_MILLI for left in left_milli))
            found = self._number.get((~of_class, grains))  # grains of the class, not thousandths: a key of its own
            if found is None:
                found = self._number[~of_class, grains] = self._meet(of_class, grains)
            self._number[key] = found
        return found

    def after(self, taking: Taking, rooms: NDArray[np.int32]) -> NDArray[np.int32]:
        """[room, choice]: rows of the worth that is left after taking; choices by device, the tightest first."""
        table = self._after.get(taking)
        if table is None or len(table) < len(self.rooms):
            table = self._grown(taking)
        found: NDArray[np.int32] = table.take(rooms, axis=0)
        unknown = found[:, 0] == UNKNOWN
        if unknown.any():
            for room in set(rooms[unknown].tolist()):
                rows = self._rows_after(taking, self.rooms[room])
                table[room] = rows + [NOWHERE] * (table.shape[1] - len(rows))
            found = table.take(rooms, axis=0)
        return found

    def best_device(self, taking: Taking, room: int, host_grains: int) -> int | None:
        """The leftover, in grains, of the device whose use keeps the most; of equals the tightest. None: by grains it fits on none."""
        if not taking.device:
            return None
        table = self._after.get(taking)
        if table is None or room >= len(table) or table[room, 0] == UNKNOWN:
            self.after(taking, np.array([room], dtype=np.int32))
        rows = self._after[taking][room].tolist()
        open_to = [grain for grain in self.rooms[room].grains if grain >= taking.device]
        kept = [self.worth.item(row + host_grains) for row, _ in zip(rows, open_to, strict=False)]
        return open_to[kept.index(max(kept))] if kept else None

    def _grown(self, taking: Taking) -> NDArray[np.int32]:
        old = self._after.get(taking)
        table = np.full((2 * len(self.rooms) + 64, self._columns if taking.device else 1), UNKNOWN, dtype=np.int32)
        if old is not None:
            table[: len(old)] = old
        self._after[taking] = table
        return table

    def _rows_after(self, taking: Taking, room: Room) -> list[int]:
        unit = self._units[room.of_class]
        if taking.device:
            return [
                self._row(room.bag - unit[grain] + unit[grain - taking.device]) for grain in room.grains if grain >= taking.device
            ] or [NOWHERE]
        if taking.gpus > room.idle:
            return [NOWHERE]
        return [self._row(room.bag - taking.gpus * unit[DEVICE_GRAINS])]

    def _meet(self, of_class: int, grains: tuple[int, ...]) -> int:
        unit = self._units[of_class]
        bag = self._tags[of_class] + sum(unit[grain] for grain in grains)
        idle = grains.count(DEVICE_GRAINS)
        self.rooms.append(Room(bag, idle, tuple(sorted({grain for grain in grains if grain})), of_class, self._row(bag)))
        return len(self.rooms) - 1

    def _row(self, bag: int) -> int:
        found = self._rows.get(bag)
        if found is None:
            found = self._rows[bag] = (len(self._rows) + 1) * self._width
            if found + self._width > len(self.worth):
                self.worth = np.concatenate([self.worth, np.full_like(self.worth, LOST)])
            self.worth[found : found + self._width] = self._worth_by_host(bag)
        return found

    def _worth_by_host(self, bag: int) -> NDArray[np.int32]:
        of_class, bag = divmod(bag, 1 << (self._bits * (DEVICE_GRAINS + 1)))
        idle, bag = divmod(bag, 1 << (self._bits * DEVICE_GRAINS))
        partly: list[int] = []
        while bag:
            level = (bag.bit_length() - 1) // self._bits
            count = bag >> (self._bits * level)
            partly += [level] * count
            bag -= count << (self._bits * level)
        return self._classes[of_class].by_host(idle, tuple(reversed(partly)))

    def _units_of(self, one: ClassWorth) -> list[int]:
        """What a device of so many grains left adds to a bag: nothing if the leftover is good for nothing."""
        partly = [1 << (self._bits * level) if level else 0 for level in one.level[:DEVICE_GRAINS]]
        return [*partly, 1 << (self._bits * DEVICE_GRAINS)]
