"""Series: readings over time. What is kept of whom, how finely, for how long; and what those who look are given.

A value is kept as a whole number of grains, so that sums are exact and the same in whatever order reports arrive.
"""
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]  # NaN is not known
MEBIBYTE = float(2**20)
SESSION_RATE_GRAIN = float(2**16)  # bytes per second: there are many sessions, and nobody looks at less
LARGEST_GRAINS = 2**31 - 1  # of one value: more is cut, as it is kept in 32 bits
LONGEST_SECONDS = 3600.0  # that one report may stand for
MOST_POINTS = 1000  # in one chart: more than a screen shows


class Kind(StrEnum):
    GPU = "gpu"  # a device by its UUID, MIG instances too
    NODE = "node"
    SESSION = "session"  # by its id
    USER = "user"  # on one node; of all nodes together when read


@dataclass(frozen=True, slots=True)
class Subject:
    kind: Kind
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    unit: str
    grain: float  # the smallest difference that is kept
    has_max: bool = False  # the highest value counts too, not only the mean


def _ratio(name: str, has_max: bool = False) -> Column:
    return Column(name, "ratio", 0.001, has_max)


def _gpus(name: str) -> Column:
    return Column(name, "gpus", 0.001)


def _rate(name: str, grain: float = 256.0) -> Column:
    return Column(name, "bytes_per_s", grain)


def _memory(name: str) -> Column:
    return Column(name, "bytes", MEBIBYTE, has_max=True)


# New columns go to the end of their kind: what is in the database knows them by their place.
COLUMNS: Mapping[Kind, tuple[Column, ...]] = {
    Kind.GPU: (
        _ratio("utilisation", has_max=True), _memory("memory_bytes"), _ratio("memory_utilisation"), _ratio("sm_active"),
        Column("power_w", "watts", 0.1), Column("temperature_c", "celsius", 0.1, has_max=True), _ratio("held"),
        _ratio("held_unknown"), _ratio("throttled_power"), _ratio("throttled_heat"),
    ),
    Kind.NODE: (
        _ratio("cpu", has_max=True), _memory("memory_bytes"), _ratio("gpu_utilisation", has_max=True), Column("power_w", "watts", 0.1),
        _rate("read_bytes_per_s"), _rate("written_bytes_per_s"), _rate("received_bytes_per_s"), _rate("sent_bytes_per_s"),
        Column("load_1m", "processes", 0.01), _gpus("gpus_used"), _gpus("gpus_unknown"), _ratio("disk_busy"),
    ),
    Kind.SESSION: (
        _gpus("gpus_held"), _gpus("gpus_used"), _memory("gpu_memory_bytes"), Column("cpus", "cpus", 0.001), _memory("memory_bytes"),
        _gpus("gpus_unknown"), *(_rate(name, SESSION_RATE_GRAIN) for name in ("read_bytes_per_s", "written_bytes_per_s")),
        *(_rate(name, SESSION_RATE_GRAIN) for name in ("received_bytes_per_s", "sent_bytes_per_s")), _ratio("io_waited"),
        Column("drawn_w", "watts", 0.1),
    ),
    Kind.USER: (
        _gpus("gpus_held"), _gpus("gpus_used"), _gpus("gpus_outside"), _memory("gpu_memory_bytes"), Column("cpus", "cpus", 0.001),
        _gpus("gpus_unknown"),
    ),
}  # fmt: skip
PLACES: Mapping[Kind, Mapping[str, int]] = {
    kind: {column.name: place for place, column in enumerate(columns)} for kind, columns in COLUMNS.items()
}


@dataclass(frozen=True, slots=True)
class Point:
    """What one report says of one subject: its values in the order of COLUMNS; None is not known."""

    subject: Subject
    values: tuple[float | None, ...]

    def value(self, column: str) -> float | None:
        return self.values[PLACES[self.subject.kind][column]]


def point(subject: Subject, **values: float | None) -> Point:
    """A column that is not named is not known; nor is what is no number, or no possible one."""
    return Point(subject, tuple(_possible(column, values.pop(column.name, None)) for column in COLUMNS[subject.kind]))


def _possible(column: Column, value: float | None) -> float | None:
    if value is None or not math.isfinite(value) or (value < 0 and column.unit != "celsius"):
        return None
    return min(float(value), LARGEST_GRAINS * column.grain)


@dataclass(frozen=True, slots=True)
class Step:
    """One resolution: buckets of so many seconds, kept for so long."""

    seconds: int
    keep: timedelta | None  # None: for ever


@dataclass(frozen=True, slots=True)
class Retention:
    raw: timedelta = timedelta(minutes=15)
    steps: tuple[Step, ...] = (Step(10, timedelta(days=2)), Step(60, timedelta(days=30)), Step(3600, None))  # fine to coarse


RAW = 0  # as a step: every report by itself


def step_for(since: datetime, until: datetime, now: datetime, keeps: Retention = Retention()) -> int:
    """Seconds: the finest that reaches back to `since` and draws it in no more than MOST_POINTS; the coarsest where none does."""
    asked_s = (until - since).total_seconds()
    if now - since <= keeps.raw:
        return RAW
    for step in keeps.steps:
        reaches = step.keep is None or now - since <= step.keep
        if reaches and asked_s / step.seconds <= MOST_POINTS:
            return step.seconds
    return keeps.steps[-1].seconds


def nearest_step(wanted_s: float, since: datetime, now: datetime, keeps: Retention = Retention()) -> int:
    """What a chart asked for in steps of so many seconds is made from: the coarsest that is no coarser, if it reaches back so far."""
    reaching = [step.seconds for step in keeps.steps if step.keep is None or now - since <= step.keep]
    return max((seconds for seconds in reaching if seconds <= wanted_s), default=reaching[0])


@dataclass(frozen=True, slots=True)
class SeriesColumn:
    unit: str
    mean: Sequence[float | None]
    max: Sequence[float | None] | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Columns beside `times`, which are the beginnings of the steps. A gap is None; what was never read at all is not there."""

    kind: Kind
    name: str
    nodes: tuple[str, ...]
    step_s: int  # RAW: every report by itself
    times: Sequence[datetime] = ()
    columns: Mapping[str, SeriesColumn] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Total:
    """One column over a stretch of time."""

    value_s: float = 0.0  # its value times the seconds it had it
    known_s: float = 0.0  # for how long it was known

    def __add__(self, other: "Total") -> "Total":
        return Total(self.value_s + other.value_s, self.known_s + other.known_s)


def floor_to(at: datetime, seconds: int) -> datetime:
    whole = int(at.timestamp()) // seconds * seconds
    return datetime.fromtimestamp(whole, UTC)
