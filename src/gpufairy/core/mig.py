"""MIG: which profiles a GPU may be cut into, and where. NVIDIA's rule: an instance takes memory slices
[start, start + size), two may not overlap, and a profile may begin only where its table says.
"""
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MigProfile:
    name: str  # as NVIDIA writes it: 1g.5gb
    compute_slices: int
    size: int  # in memory slices: 3g takes 4 of 8
    starts: tuple[int, ...]
    memory_bytes: int | None  # what the driver reports for an instance; None: never seen


@dataclass(frozen=True, slots=True)
class MigTable:
    """How one kind of GPU may be cut."""

    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]

    def profile(self, name: str) -> MigProfile | None:
        return next((p for p in self.profiles if p.name == name), None)


@dataclass(frozen=True, slots=True)
class MigInstance:
    profile: str
    start: int
    size: int
    uuid: str


def has_media(profile: str) -> bool:
    return profile.endswith("+me")


def open_starts(profile: MigProfile, taken: Iterable[tuple[int, int]]) -> list[int]:
    """Where the profile may still be cut, given the (start, size) of what is there."""
    blocked = {slice_ for start, size in taken for slice_ in range(start, start + size)}
    return [start for start in profile.starts if blocked.isdisjoint(range(start, start + profile.size))]


def room_left(table: MigTable, taken: list[tuple[int, int]]) -> int:
    """How much choice a cut leaves: the open positions of every profile, each counted by its size.

    The larger profiles weigh more, so the start that keeps the largest contiguous region wins.
    """
    return sum(len(open_starts(profile, taken)) * profile.size**2 for profile in table.profiles)


def best_start(table: MigTable, profile: MigProfile, taken: list[tuple[int, int]]) -> int | None:
    starts = open_starts(profile, taken)
    return max(starts, key=lambda start: (room_left(table, [*taken, (start, profile.size)]), start), default=None)


def table_of(cut: tuple[MigInstance, ...]) -> MigTable:
    """Of a kind that we have no table of, from how it is cut: enough to hand out what is there, not to cut it anew."""
    names = sorted({one.profile for one in cut})
    profiles = tuple(
        MigProfile(
            name,
            compute_slices=slices_in(name),
            size=next(one.size for one in cut if one.profile == name),
            starts=tuple(sorted({one.start for one in cut if one.profile == name})),
            memory_bytes=None,
        )
        for name in names
    )
    return MigTable(sum(slices_in(one.profile) for one in cut) or 1, max((one.start + one.size for one in cut), default=1), profiles)


def slices_in(profile: str) -> int:
    """`3g.20gb` has three, `1c.3g.20gb` one of its three."""
    found = re.match(r"(\d+)[cg]\.", profile)
    return int(found[1]) if found else 1
