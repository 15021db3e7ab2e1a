"""Maintenance: windows as admins plan them, kept in memory as the store has them; and when one opens or closes, its host is judged anew."""
import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gpufairy.control.clock import Clock
from gpufairy.core.booking import Booking
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.maintenance import Window, as_booking, as_silence, checked_window
from gpufairy.core.names import nearest
from gpufairy.core.node import Node
from gpufairy.core.silence import Silence
from gpufairy.store.maintenance import MaintenanceRows


class Maintenance:
    def __init__(self, store: MaintenanceRows, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._windows: dict[str, Window] = {}
        self._one_at_a_time = asyncio.Lock()  # two that are planned at once must see each other

    async def load(self) -> None:
        self._windows = {one.id: one for one in await self._store.windows(self._clock())}

    def windows(self) -> list[Window]:
        """Those that are not over, by their start."""
        now = self._clock()
        return sorted((one for one in self._windows.values() if one.end > now), key=lambda one: (one.start, one.id))

    def running(self, node: str, now: datetime) -> Window | None:
        return next((one for one in self._windows.values() if one.node == node and one.runs(now)), None)

    def bookings(self, nodes: Sequence[Node]) -> list[Booking]:
        """As the queue works around them."""
        return [as_booking(one, nodes) for one in self.windows()]

    def silences(self) -> list[Silence]:
        return [as_silence(one) for one in self.windows()]

    async def past(self, end_after: datetime) -> list[Window]:
        """Over or not."""
        return await self._store.windows(end_after)

    async def plan(self, node: str, start: datetime, end: datetime, *, by: str, why: str) -> Window:
        async with self._one_at_a_time:
            made = checked_window(Window(secrets.token_hex(3), node, start, end, by, why), self.windows(), self._clock())
            await self._store.put(made)
            self._windows[made.id] = made
            return made

    async def end(self, window_id: str) -> Window:
        """One that runs ends now, and stays in the record; one to come is as if it had never been."""
        async with self._one_at_a_time:
            found, now = next((one for one in self.windows() if one.id == window_id), None), self._clock()
            if found is None:
                near = nearest(window_id, [one.id for one in self.windows()])
                raise NoSuchThing(f"no maintenance window {window_id[:40]!r}{near}", "See `fairy node maintenance`.")
            if found.start < now:
                found = replace(found, end=now)
                await self._store.put(found)
            else:
                await self._store.remove(found.id)
            self._windows.pop(found.id)
            return found

    def forget_over(self) -> None:
        now = self._clock()
        self._windows = {key: one for key, one in self._windows.items() if one.end > now}
