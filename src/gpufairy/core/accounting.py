"""Accounting: what was held, used, drawn and to be paid in a month, by user, team, image and kind. Sums equal the ledger to the last part.

GPU-time is counted in parts of a GPU times microseconds, energy in millijoules, money in millionths: whole numbers all. None is not known.
"""
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from fractions import Fraction

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.fair_ledger import apportion
from gpufairy.core.share import PARTS
from gpufairy.core.tariff import MILLION, Rate, micros
from gpufairy.core.usage import HeldSeat

_PERIOD = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?")
FIRST_YEAR, LAST_YEAR = 2000, 9998


class AccountBy(StrEnum):
    USER = "user"
    TEAM = "team"
    IMAGE = "image"
    KIND = "kind"  # of GPU
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Period:
    """A month, or a year, by the clock of the zone it is in."""

    name: str  # 2026-11, or 2026
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Key:
    """Whose, for whom, with what."""

    user: str
    team: str | None
    image: str | None  # None: not known, or there are none here
    kind: str
    month: str

    def named(self, by: AccountBy) -> str:
        """Empty: no team, or no image."""
        return getattr(self, by.value) or ""


@dataclass(frozen=True, slots=True)
class Amount:
    held: int = 0
    used: int | None = None  # by the readings; None: it was never known
    unknown: int = 0  # held while the use was not known
    energy: int | None = None  # of the GPUs, by their counters
    energy_unknown: int = 0  # held while that was not known
    cost: int | None = None
    unpriced: int = 0  # held while no rate was in force

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            self.held + other.held, known_sum(self.used, other.used), self.unknown + other.unknown, known_sum(self.energy, other.energy),
            self.energy_unknown + other.energy_unknown, known_sum(self.cost, other.cost), self.unpriced + other.unpriced,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Read:
    """What the readings say of one session in one stretch, in seconds of a whole GPU and in joules."""

    used_s: float | None = None
    known_held_s: float = 0.0  # of what it held, for how much the use is known
    energy_j: float | None = None
    energy_known_s: float = 0.0  # for how long that was


NOTHING_READ = Read()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some time with one rate, within one month."""

    month: str
    rate: Rate | None
    seats: Sequence[HeldSeat]  # cut to it
    reads: Mapping[str, Read] = field(default_factory=dict)  # by session


@dataclass(frozen=True, slots=True)
class AccountRow:
    name: str
    amount: Amount


def period_of(text: str, now: datetime, zone: tzinfo = UTC) -> Period:
    """`2026-11`, `2026`, `this` month or the `last`."""
    today = now.astimezone(zone)
    if text in ("this", "last"):
        months = today.year * 12 + today.month - 1 - (text == "last")
        text = f"{months // 12:04d}-{months % 12 + 1:02d}"
    match = _PERIOD.fullmatch(text.strip())
    if match is None or not FIRST_YEAR <= int(match[1]) <= LAST_YEAR or not 1 <= int(match[2] or 1) <= 12:
        raise BadInput(f"month: {shown(text)} is no month", "Write it like 2026-11, a year like 2026, or this or last.")
    year, month = int(match[1]), int(match[2] or 1)
    after = (year + 1, 1) if match[2] is None or month == 12 else (year, month + 1)
    since, until = (datetime(*day, 1, tzinfo=zone).astimezone(UTC) for day in ((year, month), after))
    if since > now:
        raise BadInput(f"month: {text} has not begun", "Ask for one that has.")
    return Period(text.strip(), since, until)


def months_of(period: Period, zone: tzinfo) -> list[Period]:
    """The months that it is made of."""
    if "-" in period.name:
        return [period]
    days = [datetime(int(period.name) + month // 12, month % 12 + 1, 1, tzinfo=zone).astimezone(UTC) for month in range(13)]
    return [Period(f"{period.name}-{number:02d}", days[number - 1], days[number]) for number in range(1, 13)]


def accounts_of(stretches: Iterable[Stretch], images: Mapping[str, str | None]) -> dict[Key, Amount]:
    """`images`: by session."""
    found: dict[Key, Amount] = {}
    for stretch in stretches:
        for session_id, seats in by_session(stretch.seats).items():
            read = stretch.reads.get(session_id, NOTHING_READ)
            for key, amount in of_session(stretch, seats, read, images.get(session_id)).items():
                found[key] = found.get(key, Amount()) + amount
    return found


def by_session(seats: Iterable[HeldSeat]) -> dict[str, list[HeldSeat]]:
    found: dict[str, list[HeldSeat]] = {}
    for seat in seats:
        found.setdefault(seat.session_id, []).append(seat)
    return found


def of_session(stretch: Stretch, seats: Sequence[HeldSeat], read: Read, image: str | None) -> dict[Key, Amount]:
    """What was read of a session is told of all its GPUs together: it is shared out by what it held of each kind."""
    held: dict[Key, int] = {}
    costs: dict[Key, int] = {}
    for seat in seats:
        for gpu in seat.seat.gpus:
            key, part_micros = Key(seat.owner, seat.team, image, gpu.kind, stretch.month), gpu.parts * micros(seat.since, seat.until)
            held[key] = held.get(key, 0) + part_micros
            if stretch.rate is not None:
                costs[key] = costs.get(key, 0) + stretch.rate.of_gpus(gpu.kind, part_micros)
    whole = sum(held.values())
    if not whole:
        return {}
    weights = {key: Fraction(amount) for key, amount in held.items()}
    used = None if read.used_s is None else apportion(part_micros_of(read.used_s), weights)
    unknown = apportion(max(0, whole - part_micros_of(read.known_held_s)), weights)
    seconds = sum(seat.seconds for seat in seats)
    not_metered = apportion(round(whole * max(0.0, 1 - read.energy_known_s / seconds)) if seconds else 0, weights)
    energy = None if read.energy_j is None else apportion(round(read.energy_j * 1000), weights)
    return {
        key: Amount(
            held[key], None if used is None else used[key], unknown[key], None if energy is None else energy[key], not_metered[key],
            None if stretch.rate is None else costs[key] + stretch.rate.of_energy(0 if energy is None else energy[key]),
            held[key] if stretch.rate is None else 0,
        )
        for key in held
    }  # fmt: skip


def part_micros_of(gpu_seconds: float) -> int:
    return round(gpu_seconds * MILLION) * PARTS


def rows_by(accounts: Mapping[Key, Amount], by: AccountBy) -> list[AccountRow]:
    """Most held first; months in their order."""
    found: dict[str, Amount] = {}
    for key, amount in accounts.items():
        name = key.named(by)
        found[name] = found.get(name, Amount()) + amount
    rows = [AccountRow(name, amount) for name, amount in found.items()]
    return sorted(rows, key=lambda row: (row.name,) if by is AccountBy.MONTH else (-row.amount.held, row.name))


def total_of(accounts: Mapping[Key, Amount]) -> Amount:
    return sum(accounts.values(), Amount())


def known_sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
