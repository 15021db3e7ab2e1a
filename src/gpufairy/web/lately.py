"""Lately: what the cluster page adds up from the readings of days. Kept a while: many look, and each look would read thousands of rows."""
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta

from gpufairy.control.history import Chronicle
from gpufairy.control.house import House
from gpufairy.core.series import Kind, floor_to
from gpufairy.core.uptime import UptimeRecord
from gpufairy.core.usage import By
from gpufairy.web.speech import _
from gpufairy.web.times import length

KEPT = timedelta(seconds=30)
MOST_KEPT = 64  # days of as many zones, or hosts
RECORD = timedelta(days=7)
HOUR_S = 3600
MOST_RECORDS = 20  # silent hosts of which it is told


class Lately:
    def __init__(self, house: House, uptime: Callable[[], Awaitable[Sequence[UptimeRecord]]] | None = None) -> None:
        self._house, self._uptime = house, uptime
        self._there: tuple[datetime, Sequence[UptimeRecord]] | None = None
        self._used: dict[datetime, tuple[datetime, float | None]] = {}
        self._records: dict[str, tuple[datetime, tuple[int, int] | None]] = {}

    async def used_since(self, begins: datetime) -> float | None:
        """Of the GPU time held since then, of which the use is known, the part that was used. None: nobody can tell."""
        now = self._house.clock()
        found = self._used.get(begins)
        if found is None or not timedelta() <= now - found[0] < KEPT:
            report = await Chronicle(self._house).usage(By.USER, begins)
            known_s = sum(row.held_s - row.unknown_s for row in report.rows)
            used_s = sum(row.used_s or 0.0 for row in report.rows)
            found = now, None if known_s <= 0 else min(1.0, used_s / known_s)
            self._used = {**self._used, begins: found} if len(self._used) < MOST_KEPT else {begins: found}
        return found[1]

    async def records(self, silent: Iterable[str]) -> dict[str, str]:
        """Of hosts that are silent: for how much of the last days they reported."""
        told = {}
        for name in list(silent)[:MOST_RECORDS]:
            found = await self._hours(name)
            if found is not None:
                told[name] = _("reported in {hours} of {all} h").format(hours=found[0], all=found[1])
        return told

    async def there(self) -> dict[str, str]:
        """Of hosts with agents: for what part of the last month they were there."""
        now = self._house.clock()
        if self._uptime is not None and (self._there is None or not timedelta() <= now - self._there[0] < KEPT):
            self._there = now, await self._uptime()
        found = () if self._there is None else self._there[1]
        words = _("there {part} of {length}")
        return {one.node: words.format(part=f"{100 * one.part:.2f} %", length=length(now - one.since)) for one in found}

    async def _hours(self, name: str) -> tuple[int, int] | None:
        """Those in which it reported, of those since its first report within the last days."""
        now = self._house.clock()
        found = self._records.get(name)
        if found is None or not timedelta() <= now - found[0] < KEPT:
            since = floor_to(now - RECORD, HOUR_S)
            series = await self._house.store.history.read(Kind.NODE, name, since, now, now=now, step=HOUR_S)
            known = [at for place, at in enumerate(series.times) if any(one.mean[place] is not None for one in series.columns.values())]
            hours = None if not known else (len(known), max(len(known), math.ceil((now - known[0]).total_seconds() / HOUR_S)))
            found = now, hours
            self._records = {**self._records, name: found} if len(self._records) < MOST_KEPT else {name: found}
        return found[1]
