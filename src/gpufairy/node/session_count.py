"""Counters of one session at two looks, and what was spent in between."""
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Place:
    """The container that a session is in, by its id, and by the text of the cgroup that one of its processes was seen in."""

    container_id: str
    cgroup_text: str


@dataclass(frozen=True, slots=True)
class ProcessKey:
    pid: int
    start_ticks: int


Key: TypeAlias = str | ProcessKey  # of a whole container, or of one process


@dataclass(frozen=True, slots=True)
class Counted:
    """`cpu_s`, or whatever else only grows, by what it was counted of: one that ended takes its count with it, and no other's."""

    cpu_s: Mapping[Key, float]
    memory_bytes: int | None
    at_s: float
    at_ticks: float = 0.0  # as the beginnings of processes are counted: since the host began


def cpus_used(before: Counted | None, now: Counted) -> float | None:
    """Between the two. None: nothing was seen in both, so nobody can tell."""
    elapsed_s = 0.0 if before is None else now.at_s - before.at_s
    if before is None or elapsed_s <= 0:
        return None
    used = [spent for key, cpu_s in now.cpu_s.items() if (spent := _spent_s(before, key, cpu_s)) is not None]
    return sum(used) / elapsed_s if used else None


def _spent_s(before: Counted, key: Key, cpu_s: float) -> float | None:
    """Since then. None for one that is older, and was not counted then: it joined the session with the time of its whole life."""
    if key in before.cpu_s:
        return max(0.0, cpu_s - before.cpu_s[key])
    return cpu_s if isinstance(key, ProcessKey) and key.start_ticks >= before.at_ticks > 0 else None
