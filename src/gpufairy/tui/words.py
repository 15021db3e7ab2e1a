"""Values of the API in words for the screen. None is drawn as `-`, never as 0; what strangers wrote is made printable."""
from datetime import timedelta

from gpufairy.core.amounts import show_duration, show_size

NOT_KNOWN = "-"


def percent(ratio: float | None) -> str:
    return NOT_KNOWN if ratio is None else f"{100 * ratio:.0f}%"


def size(size_bytes: float | None) -> str:
    return NOT_KNOWN if size_bytes is None else show_size(round(size_bytes))


def of_total(used_bytes: float | None, total_bytes: float | None) -> str:
    """`31.2/80 GiB`: in the unit of the whole, so that the two are compared at a glance."""
    if total_bytes is None:
        return size(used_bytes)
    figure, unit = size(total_bytes).split()
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]
    used = NOT_KNOWN if used_bytes is None else f"{used_bytes / factor:.1f}".removesuffix(".0")
    return f"{used}/{figure} {unit}"


def rate(bytes_per_s: float | None) -> str:
    """`4.1 MiB/s`, `369 MiB/s`: a tenth of hundreds is no news."""
    if bytes_per_s is None:
        return NOT_KNOWN
    shown, unit = size(bytes_per_s).split()
    return f"{float(shown):.0f} {unit}/s" if float(shown) >= 10 else f"{shown} {unit}/s"


def celsius(degrees: float | None) -> str:
    return NOT_KNOWN if degrees is None else f"{degrees:.0f}°C"


def watts(power_w: float | None, limit_w: float | None = None) -> str:
    if power_w is None:
        return NOT_KNOWN
    return f"{power_w:.0f} W" if limit_w is None else f"{power_w:.0f}/{limit_w:.0f} W"


def figure(value: float | None, places: int = 2) -> str:
    return NOT_KNOWN if value is None else f"{value:.{places}f}"


def duration(seconds: float | None) -> str:
    return NOT_KNOWN if seconds is None else show_duration(timedelta(seconds=seconds))


def megahertz(frequency_hz: float | None) -> str:
    return NOT_KNOWN if frequency_hz is None else f"{frequency_hz / 1e6:.0f} MHz"


def count(number: float | None) -> str:
    return NOT_KNOWN if number is None else f"{number:,.0f}"


def yes_or_no(claim: bool | None) -> str:
    return NOT_KNOWN if claim is None else "yes" if claim else "no"


