"""What GPU-hours and energy cost, as fairy.toml says it."""
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.tariff import MILLION, Rate, Tariff
from gpufairy.wire.read import Strict

MOST_PRICE = Decimal(1_000_000_000)
MOST_DECIMALS = 6  # as finely as money is counted
Price = str | int | float


class RateConfig(Strict):
    """What things cost from a day on, until the next rate begins."""

    since: str  # the first day, such as "2026-01-01"
    gpu_hour: Price = 0  # an hour of a whole GPU, held
    kwh: Price = 0  # of what the GPUs drew
    kinds: Annotated[dict[str, Price], Field(max_length=100)] = {}  # noqa: RUF012 - an hour of this kind of GPU: {H200 = 2.5}


class TariffConfig(Strict):
    """What use costs. Without rates nothing is priced."""

    currency: Annotated[str, Field(max_length=12)] = ""  # shown behind amounts, such as "KRW"
    decimals: int = 2  # that amounts are shown with; KRW has 0
    zone: str = "UTC"  # in which days and months begin, such as "Asia/Seoul"
    rates: Annotated[list[RateConfig], Field(max_length=200)] = []  # noqa: RUF012 - frozen with the model

    def to_tariff(self) -> Tariff:
        zone = read_zone(self.zone)
        if not 0 <= self.decimals <= MOST_DECIMALS:
            raise BadInput(f"tariff.decimals: {self.decimals} is not between 0 and {MOST_DECIMALS}", "2 is usual; KRW has 0.")
        rates = sorted((read_rate(rate, place, zone) for place, rate in enumerate(self.rates)), key=lambda rate: rate.since)
        for one, after in pairwise(rates):
            if one.since == after.since:
                found = f"tariff.rates: two begin on {one.since.astimezone(zone):%Y-%m-%d}"
                raise BadInput(found, "Leave one of them out, or give it another day.")
        return Tariff(tuple(rates), self.currency, self.decimals, zone)


def read_zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(f"tariff.zone: {shown(name)} is no zone", 'Write it like "Asia/Seoul".') from None


def read_rate(rate: RateConfig, place: int, zone: tzinfo) -> Rate:
    where = f"tariff.rates[{place}]"
    try:
        since = datetime.combine(date.fromisoformat(rate.since), time(), zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{where}.since: {shown(rate.since)} is no day", 'Write it like "2026-01-01".') from None
    kinds = {kind: read_price(price, f"{where}.kinds.{kind}") for kind, price in rate.kinds.items()}
    return Rate(since, read_price(rate.gpu_hour, f"{where}.gpu_hour"), read_price(rate.kwh, f"{where}.kwh"), kinds)


def read_price(price: Price, where: str) -> int:
    """Millionths. What is finer than that is refused, not rounded: a bill must be what the settings say."""
    try:
        amount = Decimal(str(price))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not 0 <= amount <= MOST_PRICE or amount * MILLION != int(amount * MILLION):
        raise BadInput(f"{where}: {shown(str(price))} is no price", "Write a number from 0 on, with six decimals at the most.")
    return int(amount * MILLION)
