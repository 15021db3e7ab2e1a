"""MIG: which profiles a GPU may be cut into, and where. NVIDIA's rule: an instance takes memory slices
[start, start + size), two may not overlap, and a profile may begin only where its table says.
"""
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
