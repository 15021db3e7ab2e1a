"""Gauges: what was read of a GPU, in the words beside its bar: how full, how hard at work, how hot."""
from dataclasses import dataclass

from gpufairy.core.amounts import show_size
from gpufairy.core.reading import GpuReading
from gpufairy.web.words import UNBROKEN

HOT_C = 85.0  # where the driver does not tell from what heat on it slows down
NEAR_SLOWDOWN_C = 3.0  # so near to where it slows down it is hot


@dataclass(frozen=True, slots=True)
class Gauges:
    work: float | None  # hundredths; None: not known
    memory: str  # `33 / 40 GiB`
    heat: str  # `66 °C · 388 W`
    hot: bool


def gauges(reading: GpuReading | None, memory_bytes: int | None) -> Gauges:
    if reading is None:
        return Gauges(None, "" if memory_bytes is None else size_words(memory_bytes), "", False)
    work = None if reading.utilisation is None else round(100 * reading.utilisation, 1)
    return Gauges(work, memory_words(reading.memory_used_bytes, memory_bytes), heat_words(reading), is_hot(reading))


def memory_words(used_bytes: int | None, memory_bytes: int | None) -> str:
    """`33.8 / 40 GiB`: in the unit of the whole, so that the two can be compared at a glance."""
    if memory_bytes is None:
        return "" if used_bytes is None else size_words(used_bytes)
    figure, _, unit = size_words(memory_bytes).partition(UNBROKEN)
    if used_bytes is None:
        return f"{figure}{UNBROKEN}{unit}"
    used, places = float(figure) * used_bytes / memory_bytes, 0 if float(figure) >= 100 else 1
    return f"{used:.{places}f}{UNBROKEN}/{UNBROKEN}{figure}{UNBROKEN}{unit}"


def size_words(size_bytes: int) -> str:
    return show_size(size_bytes).replace(" ", UNBROKEN)


def heat_words(reading: GpuReading) -> str:
    heat = None if reading.temperature_c is None else f"{reading.temperature_c:.0f}{UNBROKEN}°C"
    power = None if reading.power_w is None else f"{reading.power_w:.0f}{UNBROKEN}W"
    return f"{UNBROKEN}·{UNBROKEN}".join(part for part in (heat, power) if part is not None)


def is_hot(reading: GpuReading) -> bool:
    if reading.temperature_c is None:
        return False
    return reading.temperature_c >= (HOT_C if reading.slowdown_c is None else reading.slowdown_c - NEAR_SLOWDOWN_C)
