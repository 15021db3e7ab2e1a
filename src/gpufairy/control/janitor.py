"""The janitor: each minute store, engine and drivers are compared, apart from the loops that keep them together.

What is held by nobody is told; what can be mended without harm to the living is mended through the same orders that converge gives.
"""
import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.control.converge import obey
from gpufairy.control.gpu_access import GpuAccess
from gpufairy.control.house import House
from gpufairy.core.alert_look import Leak
from gpufairy.core.errors import EngineSilent
from gpufairy.core.leak_signs import Judged, LeakLook, Once, OnGpu, remembered, signs
from gpufairy.core.leaks import Key, LeakKind, Repair, Sighting, follow, leaks_told, ordered, over_words, to_mend
from gpufairy.core.reconcile import Deed, Order, is_stuck, leftovers, reconcile
from gpufairy.core.session import Session
from gpufairy.core.steps import Event, deed_event
from gpufairy.core.workload import Workload
from gpufairy.store.events import EventQuery

log = logging.getLogger("gpufairy.janitor")

EVERY_S = 60.0
MENDED_SHOWN = 20
SOON_S, MOST_SOON = 5.0, 3  # what converge is about to put right is looked at again, so often, before the minute is round


@dataclass(frozen=True, slots=True)
class LeakReport:
    """As people are shown it."""

    sightings: tuple[Sighting, ...]  # the sure ones first
    mended: tuple[Event, ...]  # the newest first
    looked_at: datetime | None  # None: not yet
    engine_answers: bool
    repair: Repair


class Janitor:
    def __init__(self, house: House, repair: Repair, access: GpuAccess) -> None:
        self._house, self._repair, self._access = house, repair, access
        self._sightings: Mapping[Key, Sighting] = {}
        self._once: Mapping[OnGpu, Once] = {}
        self._looked_at: datetime | None = None
        self._engine_answered = True
        self.news = asyncio.Event()  # wakes its loop
        self._looked_soon = 0

    def leaks(self) -> Sequence[Leak]:
        """Those that are sure, for alerts."""
        return leaks_told(self._sightings.values())

    async def report(self) -> LeakReport:
        mended = await self._house.store.events.search(EventQuery(what="leak_mended"), before=None, limit=MENDED_SHOWN)
        return LeakReport(
            tuple(ordered(self._sightings.values())), tuple(mended), self._looked_at, self._engine_answered, self._repair
        )

    async def look(self) -> None:
        """A loop's turn."""
        look = await self._picture()
        self._engine_answered = look.workloads is not None
        self._once = remembered(self._once, look.samples)
        looked = follow(self._sightings, signs(look), Judged(look), look.now)
        self._sightings, self._looked_at = looked.sightings, look.now
        for one in looked.found:
            log.warning("leak found: %s", one.sign.sentence)
            await self._write(one.sign.node, "leak_found", one.sign.sentence)
        for one in looked.over:
            await self._tell_over(one)
        await self._tell_mended_at_once(look)
        await self._mend(to_mend(looked.sightings.values(), self._repair), look)

    async def _picture(self) -> LeakLook:
        house = self._house
        # Taken before the look at the engine: what is done in between is not on its list, and no leak either.
        busy = {workload for deed in Deed for workload in house.deeds.under_way(deed)}
        sessions = tuple(house.book.holding())
        workloads = await self._listed()
        ended = await self._ended(workloads or ())
        suspected = {one.sign.session_id for key, one in self._sightings.items() if key[0] is LeakKind.GPU_SHUT}
        open_to = await self._access.ask(suspected)
        busy |= {workload for deed in Deed for workload in house.deeds.under_way(deed)}
        # Who came or went meanwhile is looked at the next time. Who waits again may have left something behind.
        waiting = [house.book.get(one.id.session_id) for one in workloads or ()]
        known = {one.id: one for one in (*sessions, *waiting) if one is not None}
        still = tuple(one for one in known.values() if house.book.get(one.id) is one)
        now = house.clock()
        stuck = {one.id for one in still if is_stuck(one, now, house.policy, house.asked_to_leave)}
        return LeakLook(now, still, workloads, busy, ended, tuple(house.watch.samples()), self._once, stuck, open_to)

    async def _listed(self) -> tuple[Workload, ...] | None:
        if self._house.silent_since is not None:
            return None
        try:
            return tuple(await self._house.engine.list_mine())
        except EngineSilent as error:
            log.warning("nothing is compared: the engine does not answer: %s", error)
            return None

    async def _ended(self, workloads: Sequence[Workload]) -> set[str]:
        strays = {one.id.session_id for one in workloads if self._house.book.get(one.id.session_id) is None}
        return set(await self._house.store.sessions.ended(sorted(strays))) if strays else set()

    async def _tell_over(self, leak: Sighting) -> None:
        """Put right by us, or by converge; or it went away by itself."""
        noted = leak.sign.workload is not None and self._house.leak_notes.drop(leak.sign.workload)
        over = replace(leak, mending_since=leak.mending_since or leak.seen_at) if noted else leak
        await self._write(over.sign.node, "leak_gone" if over.mending_since is None else "leak_mended", over_words(over))

    async def _tell_mended_at_once(self, look: LeakLook) -> None:
        """What converge put right before anybody could be sure of it."""
        notes = self._house.leak_notes
        for one in self._sightings.values():
            if one.sure and one.sign.workload is not None:
                notes.drop(one.sign.workload)
        if look.workloads is None:
            return
        alive = {workload.id for workload in look.workloads if workload.alive}
        for note in notes.take([one for one in notes.noted() if one not in alive]):
            await self._write(note.node, "leak_mended", note.words)
        self._looked_soon = self._looked_soon + 1 if notes.noted() and self._looked_soon < MOST_SOON else 0
        if self._looked_soon:
            asyncio.get_running_loop().call_later(SOON_S, self.news.set)

    async def _mend(self, leaks: Sequence[Sighting], look: LeakLook) -> None:
        if not leaks or look.workloads is None:
            return
        await obey(self._house, [*self._seats_back(leaks, look), *stops(leaks, look)])
        for one in leaks:
            if one.mending_since is None:
                self._sightings = {**self._sightings, one.sign.key: replace(one, mending_since=look.now)}

    def _seats_back(self, leaks: Sequence[Sighting], look: LeakLook) -> list[Order]:
        """As converge would have it, of these alone. A write that finds its session changed is dropped."""
        found = (self._house.book.get(one.sign.session_id) for one in leaks if one.sign.kind is LeakKind.SEAT)
        sessions: list[Session] = [session for session in found if session is not None]
        return reconcile(sessions, look.workloads or (), look.now, self._house.policy, self._house.asked_to_leave)

    async def _write(self, node: str, what: str, words: str) -> None:
        about = f"node:{node}" if node else "engine:sessions"
        await self._house.store.events.add(deed_event(about, what, self._house.clock(), words, actor=""))
        self._house.bells.sessions_changed([])


def stops(leaks: Sequence[Sighting], look: LeakLook) -> list[Order]:
    """Only of sessions that the store knows to be over: `leftovers` leaves all others alone."""
    wanted = {one.sign.workload for one in leaks if one.sign.kind is LeakKind.WORKLOAD}
    orders, _unknown = leftovers([one for one in look.workloads or () if one.id in wanted], look.sessions, look.ended)
    return orders
