"""Summary of a session that is over: what it held, what it used, what that cost, and what would have sufficed."""
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from gpufairy.core.amounts import show_size
from gpufairy.core.share import PARTS, show_parts

SHARES = (0.1, 0.25, 0.5)  # of one GPU, that people ask for
SPARE = 1.1  # a tenth more than the most that was used
NEARLY_ALL = 0.98  # of the steps: the rest were moments that may last a little longer instead
LEAST_STEPS = 5  # of which use is known: of a shorter job nobody can tell what it needs
GIB, JOULES_PER_KWH, HOUR_S = 2**30, 3.6e6, 3600.0


@dataclass(frozen=True, slots=True)
class Cost:
    amount: float
    currency: str


@dataclass(frozen=True, slots=True)
class Sufficed:
    """None: not known, or all that it had."""

    gpus: float | None = None
    cpus: int | None = None
    memory_bytes: int | None = None

    def __bool__(self) -> bool:
        return (self.gpus, self.cpus, self.memory_bytes) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Peaks:
    """Of its whole life. None: not known."""

    gpus: float | None = None  # nearly always less than this was used
    gpu_memory_bytes: float | None = None
    cpus: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Given:
    gpus: float
    gpu_memory_bytes: int
    cpus: float
    memory_bytes: int
    divisible: bool  # its GPUs can be had in parts


@dataclass(frozen=True, slots=True)
class Summary:
    ran: timedelta
    held_s: float  # seconds of a whole GPU
    used_s: float | None
    energy_j: float | None  # of its share of its GPUs
    cost: Cost | None
    given: Given
    peaks: Peaks
    sufficed: Sufficed


def sufficed(given: Given, peaks: Peaks) -> Sufficed:
    """Only what is clearly less than it had is told."""
    cpus = None if peaks.cpus is None else max(1, math.ceil(SPARE * peaks.cpus))
    memory = None if peaks.memory_bytes is None else max(1, math.ceil(SPARE * peaks.memory_bytes / GIB)) * GIB
    return Sufficed(
        _gpus(given, peaks),
        cpus if cpus is not None and cpus <= given.cpus / 2 else None,
        memory if memory is not None and memory <= given.memory_bytes / 2 else None,
    )


def _gpus(given: Given, peaks: Peaks) -> float | None:
    """By how busy they were and by their memory, whichever is more."""
    if given.gpus <= 0 or peaks.gpus is None or peaks.gpu_memory_bytes is None or not given.gpu_memory_bytes:
        return None
    needed = SPARE * max(peaks.gpus, given.gpus * peaks.gpu_memory_bytes / given.gpu_memory_bytes)
    if peaks.gpus == 0 and peaks.gpu_memory_bytes == 0:
        return 0.0
    parts = SHARES if given.divisible else ()
    enough = next((share for share in parts if needed <= share), float(math.ceil(needed)))
    return enough if enough < given.gpus else None


def peak(values: Sequence[float | None], part: float = 1.0) -> float | None:
    """What nearly all of the known values lie under."""
    known = sorted(value for value in values if value is not None)
    if len(known) < LEAST_STEPS:
        return None
    return known[min(len(known) - 1, math.ceil(part * len(known)) - 1)]


def lines(summary: Summary) -> list[str]:
    """One or two lines for a terminal."""
    told = [] if summary.given.gpus <= 0 else [f"held {gpu_hours(summary.held_s)}", _used(summary)]
    told += [] if summary.energy_j is None else [f"{summary.energy_j / JOULES_PER_KWH:.2f} kWh"]
    told += [] if summary.cost is None else [f"{summary.cost.amount:.2f} {summary.cost.currency}"]
    less = sufficed_words(summary.sufficed)
    return [", ".join(told)] * bool(told) + [f"would have sufficed: {less}"] * bool(less)


def _used(summary: Summary) -> str:
    if summary.used_s is None:
        return "what it used is not known"
    part = f" ({100 * summary.used_s / summary.held_s:.0f} %)" if summary.held_s > 0 else ""
    return f"used {gpu_hours(summary.used_s)}{part}"


def sufficed_words(less: Sufficed) -> str:
    """As options of `fairy run`, to be copied."""
    gpus = "" if less.gpus is None else f"--gpus {show_parts(round(less.gpus * PARTS))}"
    cpus = "" if less.cpus is None else f"--cpus {less.cpus}"
    memory = "" if less.memory_bytes is None else f"--memory {show_size(less.memory_bytes).replace(' ', '')}"
    return " ".join(word for word in (gpus, cpus, memory) if word)


def gpu_hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:.2f} GPU-hours"
