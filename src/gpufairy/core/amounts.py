"""Sizes, durations and CPU amounts as people write them, and back. Nothing here knows about GPUs (see share.py)."""
import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from gpufairy.core.errors import BadInput

SIZE_UNITS = {
    "": 1, "B": 1,
    "K": 2**10, "KIB": 2**10, "KB": 10**3,
    "M": 2**20, "MIB": 2**20, "MB": 10**6,
    "G": 2**30, "GIB": 2**30, "GB": 10**9,
    "T": 2**40, "TIB": 2**40, "TB": 10**12,
}  # fmt: skip
DURATION_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
LARGEST_SIZE = 2**50  # 1 PiB: more than any node has, so more is a slip of the keyboard
LONGEST = timedelta(days=366)  # a session that asks for longer is one that nobody will remember
MOST_CPUS_MILLI = 1_000_000  # a thousand CPUs

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s{0,4}([A-Za-z]{0,3})")
_DURATION_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhdw])")


def parse_size(text: str, what: str = "size") -> int:
    """Bytes of `16GiB`, `16G` (also 2**30, as people mean it), `512MiB`, `1.5T` or a bare number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].upper() not in SIZE_UNITS:
        raise BadInput(f"{what}: {shown(text)} is no size", "Write a number and a unit, such as 512MiB, 16GiB or 16G.")
    size = int(Decimal(match[1]) * SIZE_UNITS[match[2].upper()])
    if not 0 < size <= LARGEST_SIZE:
        raise BadInput(f"{what}: {shown(text)} is not between 1 byte and 1 PiB", "Write a size such as 16GiB.")
    return size


def show_size(size_bytes: int) -> str:
    """`16 GiB`, `1.5 GiB`, `512 MiB`: the largest unit that leaves a figure of at least 1."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size_bytes} B"


def parse_duration(text: str, what: str = "time") -> timedelta:
    """The time of `90s`, `45m`, `2h`, `1d`, or several of them in a row (`1h30m`)."""
    compact = text.strip().lower().replace(" ", "")
    parts = _DURATION_PART.findall(compact) if len(compact) <= 40 else []
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise BadInput(f"{what}: {shown(text)} is no duration", "Write a number and s, m, h or d, such as 90s, 45m, 2h or 1d.")
    seconds = sum(float(number) * DURATION_UNITS_S[unit] for number, unit in parts)
    if not 0 < seconds <= LONGEST.total_seconds():
        raise BadInput(f"{what}: {shown(text)} is not between a moment and {LONGEST.days} days", "Write a duration such as 2h.")
    return timedelta(seconds=seconds)


def show_duration(time: timedelta) -> str:
    """Two units at the most: `2 h 5 min`, `45 s`, `3 d`."""
    seconds = max(0, round(time.total_seconds()))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount} {unit}")
    return " ".join(parts[:2]) or "0 s"


def parse_cpus(text: str, what: str = "cpus") -> int:
    """Thousandths of a CPU: `4` is 4000, `0.5` is 500."""
    try:
        amount = Decimal(text.strip()) if len(text) <= 20 else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not 0 < amount <= MOST_CPUS_MILLI // 1000:  # not multiplied: 1e999999 would overflow
        raise BadInput(f"{what}: {shown(text)} is no number of CPUs between 0.001 and 1000", "Write a number such as 4 or 0.5.")
    return max(1, int(amount * 1000))


def show_cpus(cpus_milli: int) -> str:
    return f"{cpus_milli / 1000:g}"


def show_count(count: int, one: str, several: str = "") -> str:
    """`1 user`, `2 users`; `several` where it is not made by an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def shown(text: str, most: int = 60) -> str:
    """What a stranger sent, quoted, control characters escaped, cut: safe in one line of an error or a log."""
    quoted = ascii(text) if not text.isprintable() else repr(text)
    return quoted if len(quoted) <= most else quoted[: most - 2] + "…'"
