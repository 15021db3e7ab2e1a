"""Where to cut a MIG instance so that what is left suits the profiles people ask for: the fewest slices that they could not use.

Table-driven: a GPU's slices, taken or not, are one small number, and the worth of each is worked out once a mix.
For a GPU of which nothing is known but its profiles see mig.best_start.
"""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpufairy.core.mig import MigProfile, MigTable

Taken = Iterable[tuple[int, int]]  # (start, size) of what is there
Mix = Mapping[str, float]  # how often each profile was asked for lately
MIXES_KEPT = 64  # of the worths worked out; each has at most one number for every way to take the slices
FINE = 9  # decimals: below that two worths differ by rounding alone


@dataclass(frozen=True, slots=True)
class CutCost:
    """Of one cut; the least is the best. Compared in this order."""

    unusable_more: float  # slices that the mix cannot use after it, less those before
    region_less: int  # minus the largest contiguous region it leaves
    start_less: int  # minus the start: the large profiles begin low


def best_start_for_mix(table: MigTable, profile: MigProfile, taken: Taken, mix: Mix) -> int | None:
    """Where to cut the profile beside what is taken. None: nowhere. A mix of nothing is as good as an even one."""
    costs = cut_costs(table, profile, taken, mix)
    return min(costs, key=lambda start: _key(costs[start]), default=None)


def best_cut_for_mix(gpus: Sequence[tuple[MigTable, Taken]], name: str, mix: Mix) -> tuple[int, int] | None:
    """Which of several GPUs to cut, and where: the fewest slices lost to the mix; of equals the GPU that is fullest already."""
    tried = []
    for place, (table, taken) in enumerate(gpus):
        there, profile = tuple(taken), table.profile(name)
        costs = cut_costs(table, profile, there, mix) if profile is not None else {}
        free = table.memory_slices - mask_of(there).bit_count()
        tried += [(cost.unusable_more, free, cost.region_less, cost.start_less, place, start) for start, cost in costs.items()]
    return min(tried)[-2:] if tried else None


def cut_costs(table: MigTable, profile: MigProfile, taken: Taken, mix: Mix) -> dict[int, CutCost]:
    """By each start that is open: to choose among GPUs as well as among the places on one."""
    mask, worth = mask_of(taken), _slices(table, _settled(table, mix))
    before = worth.unusable(mask)
    costs = {}
    for start in profile.starts:
        cut = _span(start, profile.size)
        if not mask & cut:
            after = mask | cut
            costs[start] = CutCost(round(worth.unusable(after) - before, FINE), -worth.largest_region(after), -start)
    return costs


def unusable_slices(table: MigTable, taken: Taken, mix: Mix) -> float:
    """The free slices that the next request cannot use, expected over the mix."""
    return _slices(table, _settled(table, mix)).unusable(mask_of(taken))


def mask_of(taken: Taken) -> int:
    mask = 0
    for start, size in taken:
        mask |= _span(start, size)
    return mask


def _key(cost: CutCost) -> tuple[float, int, int]:
    return cost.unusable_more, cost.region_less, cost.start_less


def _span(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def _settled(table: MigTable, mix: Mix) -> tuple[tuple[str, float], ...]:
    """The parts of the profiles that the GPU has, in one order. Others are for other GPUs."""
    known = {profile.name: max(0.0, mix.get(profile.name, 0.0)) for profile in table.profiles}
    total = sum(known.values())
    if total <= 0:
        return tuple((name, 1 / len(known)) for name in sorted(known))
    return tuple((name, part / total) for name, part in sorted(known.items()) if part)


class _Slices:
    """The worths of one kind of GPU and one mix, by the mask of what is taken."""

    def __init__(self, table: MigTable, mix: tuple[tuple[str, float], ...]) -> None:
        self._table = table
        self._wanted = [(profile, part) for name, part in mix if (profile := table.profile(name)) is not None]
        self._unusable: dict[int, float] = {}
        self._covered: dict[tuple[str, int], int] = {}

    def unusable(self, mask: int) -> float:
        if mask not in self._unusable:
            free = self._table.memory_slices - mask.bit_count()
            self._unusable[mask] = sum(part * (free - self.covered(profile, mask)) for profile, part in self._wanted)
        return self._unusable[mask]

    def covered(self, profile: MigProfile, mask: int) -> int:
        """The most slices that instances of the profile can take together."""
        key = (profile.name, mask)
        if key not in self._covered:
            cuts = [cut for start in profile.starts if not mask & (cut := _span(start, profile.size))]
            self._covered[key] = max((profile.size + self.covered(profile, mask | cut) for cut in cuts), default=0)
        return self._covered[key]

    def largest_region(self, mask: int) -> int:
        free = "".join("#" if mask >> slice_ & 1 else "." for slice_ in range(self._table.memory_slices))
        return max(len(run) for run in free.split("#"))


@lru_cache(maxsize=MIXES_KEPT)
def _slices(table: MigTable, mix: tuple[tuple[str, float], ...]) -> _Slices:
    return _Slices(table, mix)
