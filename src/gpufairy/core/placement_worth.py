"""The worth of a node's room: the mean, over sampled futures, of the most that can be packed into it.

A future is the set of shapes among some draws from the mix. Exact dynamic programming over grains of the host and of a device;
whole numbers throughout, so that ties are ties on every machine.
"""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.placement_mix import WHOLE, Mix, Shape

FUTURES = 16  # sampled; 8 place a little worse, 64 no better, and the work grows with them
DRAWS = 40  # pods in a future; from 20 to 80 alike. With many more every future is the same, and rare shapes rule
DEVICE_GRAINS = 100  # of one device: 1 % is finer than anybody asks
GRAIN_MILLI = WHOLE // DEVICE_GRAINS
LARGEST = 30_000  # of a table's 16 bits; the rest keeps "impossible" below everything
IMPOSSIBLE = -32_000

Table = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class RoomClass:
    """Nodes that the same shapes may use, and whose host is counted in the same grains."""

    shapes: frozenset[Shape]  # those with worth, of any future
    host_grain: int  # CPU, or memory, in one grain
    grains: int  # of the largest host
    most_gpus: int


@dataclass(frozen=True, slots=True)
class Item:
    """A shape in grains."""

    host: int
    device: int  # of one device, for a fraction or a single GPU
    gpus: int  # more than one: whole devices
    worth: int


def draw_futures(mix: Mix, seed: int) -> list[frozenset[Shape]]:
    shapes = list(mix)
    part = np.array([mix[shape] for shape in shapes], dtype=float)
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(shapes), size=(FUTURES, DRAWS), p=part / part.sum())
    return [frozenset(shapes[place] for place in future) for future in drawn.tolist()]


def scale_of(worth: Mapping[Shape, float], most_gpus: int) -> float:
    """Table units in one GPU of worth: as fine as sixteen bits allow for the fullest node there could be."""
    densest = max((value / _device_grains(shape) for shape, value in worth.items() if value > 0), default=1.0)
    return LARGEST / (densest * DEVICE_GRAINS * max(most_gpus, 1))


class Addend:
    """A room's table, made ready to be joined to another: the host grains at which it grows, and its worth there.

    Giving a room any other number wastes some, so no other split need be tried.
    """

    __slots__ = ("at", "gain", "table")

    def __init__(self, table: Table) -> None:
        self.table = table
        grows = np.empty(table.shape[1], dtype=bool)
        grows[0] = True
        np.not_equal(table[:, 1:], table[:, :-1]).any(axis=0, out=grows[1:])
        steps = grows.nonzero()[0]
        self.at = table.shape[1] - steps
        self.gain = table.T[steps][:, :, None]


class ClassWorth:
    """Tables of one class of nodes."""

    def __init__(self, room: RoomClass, futures: Sequence[frozenset[Shape]], worth: Mapping[Shape, int]) -> None:
        items = [_items(future, room, worth) for future in futures]
        device = np.stack([_one_device(of_one, room.grains) for of_one in items], axis=1)  # [leftover, future, host]
        self.level = _levels(device)
        idle = _idle_devices(device[-1], items, room.most_gpus)
        self._idle = [Addend(table) for table in idle]
        self._device = {level: Addend(device[level]) for level in set(self.level)}
        self.forget()

    def forget(self) -> None:
        """What was worked out on the way."""
        self._partly: dict[tuple[int, ...], Table] = {(level,): one.table for level, one in self._device.items()}

    def by_host(self, idle: int, partly: tuple[int, ...]) -> NDArray[np.int32]:
        """Summed over the futures, for each number of free grains of the host. `partly`: levels of the devices in use, ascending."""
        best = self._idle[idle].table
        if partly:
            best = most_together(self._together(partly), self._idle[idle]) if idle else self._together(partly)
        total: NDArray[np.int32] = best.sum(axis=0, dtype=np.int32)
        return total

    def _together(self, partly: tuple[int, ...]) -> Table:
        found = self._partly.get(partly)
        if found is None:
            found = self._partly[partly] = most_together(self._together(partly[:-1]), self._device[partly[-1]])
        return found


def most_together(one: Table, other: Addend) -> Table:
    """The best split of the host between two rooms, for every number of grains and every future: a max-plus convolution."""
    tried = _shifted(one)[other.at]  # not take(): that would copy the whole view first
    tried += other.gain
    best: Table = tried.max(axis=0)
    return best


def _shifted(table: Table) -> Table:
    """[width - grains given away, future, host]: a view of the table moved up by every number of grains."""
    futures, width = table.shape
    padded = np.empty((futures, 2 * width), dtype=np.int16)
    padded[:, :width] = IMPOSSIBLE
    padded[:, width:] = table
    row, cell = padded.strides
    return np.ndarray((width + 1, futures, width), np.int16, buffer=padded, strides=(cell, row, cell))


def _levels(device: Table) -> list[int]:
    """Leftovers of the same table are the same leftover: the smallest stands for all; 0 is worth nothing."""
    first: dict[bytes, int] = {}
    return [first.setdefault(table.tobytes(), grains) for grains, table in enumerate(device)]


def _items(future: frozenset[Shape], room: RoomClass, worth: Mapping[Shape, int]) -> list[Item]:
    """Of shapes alike in grains the best alone; those too large for any node of the class have no part."""
    best: dict[tuple[int, int, int], int] = {}
    for shape in future & room.shapes:
        key = (-(-shape.host // room.host_grain), min(_device_grains(shape), DEVICE_GRAINS), shape.num_gpu)
        if key[0] <= room.grains:
            best[key] = max(best.get(key, 0), worth[shape])
    return [Item(*key, value) for key, value in sorted(best.items()) if value > 0]


def _one_device(items: Sequence[Item], grains: int) -> Table:
    """[leftover, host]: as many of each shape as fit."""
    best = np.zeros((DEVICE_GRAINS + 1, grains + 1), dtype=np.int16)
    for item in items:
        if item.gpus == 1:
            _add_any_number(best, item)
    return best


def _add_any_number(best: Table, item: Item) -> None:
    """A block of as many leftovers as the item takes depends only on the block below, so it is done at once."""
    width = best.shape[1]
    for low in range(item.device, DEVICE_GRAINS + 1, item.device):
        high = min(low + item.device, DEVICE_GRAINS + 1)
        below = best[low - item.device : high - item.device, : width - item.host]
        here = best[low:high, item.host :]
        np.maximum(here, below + np.int16(item.worth), out=here)


def _idle_devices(whole: Table, items: Sequence[Sequence[Item]], most_gpus: int) -> Table:
    """[devices, future, host]: each idle device packed by itself, or several taken by one that asks for several."""
    best, one = np.zeros((most_gpus + 1, *whole.shape), dtype=np.int16), Addend(whole)
    for devices in range(1, most_gpus + 1):
        best[devices] = most_together(best[devices - 1], one)
        for future, of_one in enumerate(items):
            for item in of_one:
                if 1 < item.gpus <= devices:
                    here, before = best[devices, future, item.host :], best[devices - item.gpus, future]
                    np.maximum(here, before[: len(here)] + np.int16(item.worth), out=here)
    return best


@lru_cache(maxsize=4096)
def _device_grains(shape: Shape) -> int:
    """Rounded up, and never nothing; several GPUs count in all."""
    return max(1, -(-shape.milli // GRAIN_MILLI))
