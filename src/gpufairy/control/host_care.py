"""What admins plan for hosts, written down with who did it; the loop that opens and closes windows; and when nobody watched."""
from datetime import datetime, timedelta

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.booking import clock_words
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.maintenance import Window
from gpufairy.core.names import nearest
from gpufairy.core.steps import deed_event
from gpufairy.core.uptime import Spell
from gpufairy.wire.maintenance import WindowBody

WATCHED_UNTIL = "watched_until"  # in the store's meta table
MARK_EVERY = timedelta(seconds=30)  # a server that is killed leaves a mark no older than this
AWAY_AFTER = timedelta(seconds=15)  # between two turns of a loop that comes each second
KEPT = timedelta(days=400)
FORGET_EVERY = timedelta(hours=1)


async def plan_window(house: House, actor: str, node: str, body: WindowBody) -> Window:
    hosts = {*(one.name for one in house.nodes), *(one.node for one in house.watch.hosts())}
    if node not in hosts:
        raise NoSuchThing(f"no host {node[:60]!r}{nearest(node, hosts)}", "See `fairy node list`.")
    now = house.clock()
    start, end = body.to_times(now)
    made = await house.maintenance.plan(node, start, end, by=actor, why=body.why.strip())
    words = f"planned from {clock_words(made.start, now)} until {clock_words(made.end, now)}: {made.why}"
    await note(house, actor, f"node:{node}", "maintenance_planned", words)
    await judge_anew(house)
    return made


async def end_window(house: House, actor: str, window_id: str) -> Window:
    ended = await house.maintenance.end(window_id)
    await note(house, actor, f"node:{ended.node}", "maintenance_ended", ended.why)
    await judge_anew(house)
    return ended


async def judge_anew(house: House) -> None:
    await house.look_at_nodes()
    house.bells.place.set()


class HostCare:
    """A loop that comes each second."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._open: dict[str, Window] = {}
        self._turned_at: datetime | None = None
        self._marked_at: datetime | None = None
        self._forgot_at: datetime | None = None

    async def load(self) -> None:
        """What was not watched before this server began."""
        now, text = self._house.clock(), await self._house.store.meta.get(WATCHED_UNTIL)
        if text is not None and now - (last := datetime.fromisoformat(text)) > AWAY_AFTER:
            await self._house.store.maintenance.add_unwatched(Spell(last, now))
        await self._mark(now)
        self._turned_at = now
        self._open = {one.id: one for one in self._house.maintenance.windows() if one.runs(now)}

    async def close(self) -> None:
        await self._mark(self._house.clock())

    async def look(self) -> None:
        """A loop's turn."""
        now, last = self._house.clock(), self._turned_at
        if last is not None and now - last > AWAY_AFTER:
            await self._house.store.maintenance.add_unwatched(Spell(last, now))
        self._turned_at = now
        if self._marked_at is None or now - self._marked_at >= MARK_EVERY:
            await self._mark(now)
        await self._open_and_close(now)
        if self._forgot_at is None or now - self._forgot_at >= FORGET_EVERY:
            self._forgot_at = now
            await self._house.store.maintenance.forget(now - KEPT)

    async def _mark(self, now: datetime) -> None:
        self._marked_at = now
        await self._house.store.meta.put(WATCHED_UNTIL, now.isoformat())

    async def _open_and_close(self, now: datetime) -> None:
        house, before = self._house, self._open
        self._open = {one.id: one for one in house.maintenance.windows() if one.runs(now)}
        if self._open.keys() == before.keys():
            return
        for one in (window for key, window in self._open.items() if key not in before):
            await self._tell(one, "maintenance_began", now)
        for one in (window for key, window in before.items() if key not in self._open and window.end <= now):
            await self._tell(one, "maintenance_over", now)
        house.maintenance.forget_over()
        await judge_anew(house)

    async def _tell(self, window: Window, what: str, now: datetime) -> None:
        await self._house.store.events.add(deed_event(f"node:{window.node}", what, now, window.why, actor=""))
        self._house.bells.sessions_changed([])
