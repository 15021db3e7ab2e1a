"""Tariff: what an hour of a GPU and a kWh cost, from which day on. Money is counted in millionths, whole numbers: sums are exact.

Each stretch of a seat is rounded once, where it is priced; whoever adds up afterwards, in whatever order, gets the same.
"""
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from itertools import pairwise

from gpufairy.core.fit import is_kind
from gpufairy.core.share import PARTS
from gpufairy.core.usage import HeldSeat

MILLION = 1_000_000
PART_MICROS_OF_A_GPU_HOUR = PARTS * 3600 * MILLION
MILLIJOULES_OF_A_KWH = 3600 * MILLION


@dataclass(frozen=True, slots=True)
class Rate:
    """Prices in millionths of the currency."""

    since: datetime
    gpu_hour: int = 0
    kwh: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)  # of an hour, by kind of GPU; `A100` is any A100

    def of_gpus(self, kind: str, part_micros: int) -> int:
        named = [name for name in self.kinds if is_kind(kind, name)]
        price = self.kinds[max(named, key=len)] if named else self.gpu_hour
        return rounded(part_micros * price, PART_MICROS_OF_A_GPU_HOUR)

    def of_energy(self, millijoules: int) -> int:
        return rounded(millijoules * self.kwh, MILLIJOULES_OF_A_KWH)


@dataclass(frozen=True, slots=True)
class Tariff:
    rates: tuple[Rate, ...] = ()  # oldest first; none: nothing is priced here
    currency: str = ""
    decimals: int = 2  # that are shown
    zone: tzinfo = UTC  # in which days and months begin

    def stretches(self, since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime, Rate | None]]:
        """Cut where another rate begins. None: before the first."""
        cuts = [since, *(rate.since for rate in self.rates if since < rate.since < until), until]
        for begin, end in pairwise(cuts):
            if end > begin:
                yield begin, end, self.at(begin)

    def at(self, when: datetime) -> Rate | None:
        return next((rate for rate in reversed(self.rates) if rate.since <= when), None)

    def of_seats(self, seats: Iterable[HeldSeat]) -> int | None:
        """What seats cost by the hours that they were held, without energy. None: no rate was in force, or none is set."""
        costs = [
            rate.of_gpus(gpu.kind, gpu.parts * micros(begin, end))
            for seat in seats
            for begin, end, rate in self.stretches(seat.since, seat.until)
            for gpu in seat.seat.gpus
            if rate is not None
        ]
        return sum(costs) if costs else None

    def shown(self, cost: int) -> str:
        """`1,234.50 EUR`."""
        amount = f"{Decimal(cost) / MILLION:,.{self.decimals}f}"
        return f"{amount} {self.currency}".rstrip()


NO_TARIFF = Tariff()


def micros(since: datetime, until: datetime) -> int:
    span = until - since
    return (span.days * 86400 + span.seconds) * MILLION + span.microseconds


def rounded(amount: int, by: int) -> int:
    """Half to even, as banks do."""
    whole, rest = divmod(amount, by)
    return whole + (2 * rest > by or (2 * rest == by and whole % 2 == 1))
