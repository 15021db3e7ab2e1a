"""Upkeep: each night what is old enough is removed, in small pieces with a rest between them; long logs of our own are begun anew."""
import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Any, Protocol

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.session import Session
from gpufairy.core.upkeep import Keeps, before, goes, is_due
from gpufairy.store.upkeep import AT_ONCE, Looked

log = logging.getLogger("gpufairy.upkeep")

DONE_AT = "upkeep_at"  # in the meta table: when the last clean-up was done
REST_S = 0.02  # between two pieces: whoever else writes comes first


class Files(Protocol):
    """What lies beside the database. Each call is quick, and made in a thread."""

    def look(self, now: datetime) -> None: ...  # logs that are long are begun anew
    def remove_unused_tools(self, holding: Sequence[Session], now: datetime) -> int: ...


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    keeps: Keeps = field(default_factory=Keeps)
    nightly: time | None = time(4)  # None: nothing is ever removed
    rest_s: float = REST_S


class Upkeep:
    def __init__(self, house: House, settings: UpkeepSettings, files: Files) -> None:
        self._house, self._settings, self._files = house, settings, files
        self._started = house.clock()
        self._last: datetime | None = None

    async def look(self) -> None:
        """A loop's turn."""
        await asyncio.to_thread(self._files.look, self._house.clock())
        if self._last is None and (told := await self._house.store.meta.get(DONE_AT)) is not None:
            self._last = datetime.fromisoformat(told)
        now = self._house.clock()
        last = None if self._last is None else self._last.astimezone()
        if is_due(last, self._started.astimezone(), now.astimezone(), self._settings.nightly):
            await self.clean(now)

    async def clean(self, now: datetime) -> dict[str, int]:
        """How much went, by what it was."""
        keeps, rows = self._settings.keeps, self._house.store.upkeep
        gone = {
            "sessions": await self._sessions(before(now, keeps.sessions)),
            "events": await self._events(before(now, keeps.events), before(now, keeps.audit)),
            "tokens": await self._all(rows.remove_tokens, before(now, keeps.tokens)),
            "links": await self._all(rows.remove_links, before(now, keeps.tokens)),
            "bookings": await self._all(rows.remove_bookings, before(now, keeps.bookings)),
            "silences": await self._all(rows.remove_silences, before(now, keeps.bookings)),
            "uses of images": await self._all(rows.remove_image_uses, before(now, keeps.bookings)),
        }
        holding = list(self._house.book.holding())
        gone["folders of old tools"] = await asyncio.to_thread(self._files.remove_unused_tools, holding, now)
        await self._house.store.meta.put(DONE_AT, now.isoformat())
        self._last = now
        words = ", ".join(f"{count} {what}" for what, count in gone.items() if count)
        if words:
            log.info("what was old enough was removed: %s", words)
            await note(self._house, "", "upkeep:nightly", "old_removed", words)
        return gone

    async def _sessions(self, limit: datetime | None) -> int:
        if limit is None:
            return 0
        rows = self._house.store.upkeep
        return await self._walk(lambda after: rows.ended_sessions(after, limit), rows.remove_sessions)

    async def _events(self, events_before: datetime | None, audit_before: datetime | None) -> int:
        limits = [limit for limit in (events_before, audit_before) if limit is not None]
        if not limits:
            return 0
        rows = self._house.store.upkeep
        return await self._walk(
            lambda after: rows.old_events(after, max(limits), lambda at, by_person: goes(at, by_person, events_before, audit_before)),
            rows.remove_events,
        )

    async def _walk(self, look: Callable[[int], Awaitable[Looked]], remove: Callable[[Sequence[Any]], Awaitable[int]]) -> int:
        """From the oldest on, past those that stay."""
        gone, found = 0, Looked((), 0, True)
        while found.more:
            found = await look(found.after)
            for start in range(0, len(found.due), AT_ONCE):
                gone += await remove(found.due[start : start + AT_ONCE])
                await asyncio.sleep(self._settings.rest_s)
        return gone

    async def _all(self, remove: Callable[[datetime], Awaitable[int]], limit: datetime | None) -> int:
        gone = 0
        while limit is not None and (some := await remove(limit)):
            gone += some
            await asyncio.sleep(self._settings.rest_s)
        return gone
