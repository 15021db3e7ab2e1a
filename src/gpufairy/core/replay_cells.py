"""What stands in one cell of a trace: times, durations and amounts, as numbers in the unit of their column or as people write them."""
import math
from datetime import UTC, datetime, timedelta

from gpufairy.core.amounts import LARGEST_SIZE, MOST_CPUS_MILLI, parse_cpus, parse_duration, parse_size, shown
from gpufairy.core.errors import BadInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = timedelta(days=3660)  # of one job: more is a unit mistaken
TRUTH = {"1": True, "true": True, "yes": True, "y": True, "0": False, "false": False, "no": False, "n": False, "": False}


def time_of(text: str, unit: float) -> datetime:
    seconds = number_of(text)
    try:
        if seconds is not None:
            return EPOCH + timedelta(seconds=seconds * unit)
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"submit: {shown(text)} is no time: neither seconds nor 2026-11-15T08:00:00Z") from None


def duration_of(text: str, unit: float, what: str) -> timedelta:
    seconds = number_of(text)
    if seconds is None:
        return parse_duration(text, what)
    if seconds < 0:
        raise BadInput(f"{what}: {shown(text)} is negative")
    if seconds * unit > LONGEST.total_seconds():
        raise BadInput(f"{what}: {shown(text)} is longer than {LONGEST.days} days")
    return timedelta(seconds=seconds * unit)


def number_of(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def cpus_of(text: str, unit: float) -> int | None:
    number = number_of(text)
    if number is None or unit == 1:
        return parse_cpus(text) if text else None
    if not 0 < number <= MOST_CPUS_MILLI:
        raise BadInput(f"cpus: {shown(text)} is not between 1 and {MOST_CPUS_MILLI} thousandths")
    return int(number)


def memory_of(text: str, unit: float) -> int | None:
    number = number_of(text)
    if number is None or unit == 1:
        return parse_size(text, "memory") if text else None
    if not 0 < number * unit <= LARGEST_SIZE:
        raise BadInput(f"memory: {shown(text)} is not between 1 byte and 1 PiB")
    return int(number * unit)


def truth_of(text: str) -> bool:
    if text.lower() not in TRUTH:
        raise BadInput(f"preemptible: {shown(text)} is neither yes nor no")
    return TRUTH[text.lower()]


def priority_of(text: str) -> int:
    number = number_of(text or "0")
    if number is None or number != int(number) or abs(number) > 1_000_000:
        raise BadInput(f"priority: {shown(text)} is no whole number up to a million")
    return int(number)
