"""The reclaim loop: looks whether sessions use the GPUs that they hold, and takes those that do not down the ladder, rung by rung."""
import logging
from dataclasses import replace
from datetime import datetime
from functools import partial

from gpufairy.control.house import House
from gpufairy.control.notices import About
from gpufairy.control.reclaim_stop import StopIdle
from gpufairy.core.cluster import Totals
from gpufairy.core.guests import is_guest_of
from gpufairy.core.idle import Watched, glances, watched
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reclaim import WHAT, Ladders, Rung, grown, is_back, next_rung, why_not_lent, why_not_shrunk
from gpufairy.core.room import rooms
from gpufairy.core.session import IdleStep, Seat, Session, Wanted
from gpufairy.core.steps import Change, idle_step, noted, reseat
from gpufairy.core.turn import charge_parts

log = logging.getLogger("gpufairy.reclaim")

BACK = {IdleStep.LENT: "lent_back"}  # the event of one that goes back to the top; of all others `in_use_again`


class ReclaimWatch:
    def __init__(self, house: House, ladders: Ladders) -> None:
        self._house, self._ladders = house, ladders
        self._stop_idle = StopIdle(house)
        self._watched: dict[str, Watched] = {}
        self._looked_at: dict[str, datetime] = {}  # by host, the time of the sample
        self._left_out: dict[str, datetime | None] = {}  # of whom it was told that nothing can be done, and since when they were there then

    async def look(self) -> None:
        """A loop's turn."""
        running = {one.id: one for one in self._house.book.holding() if may_be_idle(one)}
        self._watched = {key: found for key, found in self._watched.items() if key in running}
        self._left_out = {key: since for key, since in self._left_out.items() if key in running}
        self._stop_idle.forget_all_but(running)
        self._take_readings(list(running.values()))
        for session in running.values():
            await self._judge(session)

    def _take_readings(self, running: list[Session]) -> None:
        """A sample that was looked at before says nothing new."""
        now = self._house.clock()
        for node in self._house.nodes:
            seen = self._house.watch.host(node.name)
            if seen is None or seen.sample is None or seen.silent or self._looked_at.get(node.name) == seen.sample.at:
                continue
            self._looked_at[node.name] = seen.sample.at
            here = [session for session in running if session.seat is not None and session.seat.node == node.name]
            for session_id, glance in glances(seen.sample, here).items():
                self._watched[session_id] = watched(self._watched.get(session_id), glance, now)

    async def _judge(self, session: Session) -> None:
        now, found, ladder = self._house.clock(), self._watched.get(session.id), self._ladders.of(session)
        if why := is_back(session, found, ladder):
            await self._back_to_the_top(session, why, now)
        elif session.idle_step is IdleStep.NONE and is_small(session):
            await self._grow(session, now)
        elif (rung := next_rung(session, found, ladder, partial(self._refuses, session, found), now)) is not None:
            await self._down(session, rung, found, now)

    def _refuses(self, session: Session, found: Watched | None, rung: IdleStep) -> str:
        memory = None if found is None or found.glance is None else found.glance.memory
        if rung is IdleStep.LENT:
            return why_not_lent(session, memory)
        if rung is IdleStep.SHRUNK:
            guests = any(is_guest_of(session, other) for other in self._house.book.holding())
            return why_not_shrunk(session, memory, is_held=self._house.engine.name == "docker", has_guests=guests)
        return self._stop_idle.refusal(session) if rung is IdleStep.STOPPED else ""

    async def _down(self, session: Session, rung: Rung, found: Watched | None, now: datetime) -> None:
        if rung.to is IdleStep.NONE:
            told = session.id in self._left_out and self._left_out[session.id] == session.idle_since
            if not told and await self._house.save([noted(session, "not_reclaimed", now, rung.why)]):
                self._left_out[session.id] = session.idle_since
            return
        if rung.to is IdleStep.STOPPED:
            self._stop_idle.begin(session, rung.why)
            return
        async with self._house.placing:
            told_again = rung.to is session.idle_step
            if not told_again and self._refuses(session, found, rung.to):
                return  # somebody was placed there while this waited for its turn
            made = idle_step(session, rung.to, now, "idle_warned" if told_again else WHAT[rung.to], rung.why)
            await self._write(made if rung.seat is None else self._reseated(made, rung.seat, now))

    async def _back_to_the_top(self, session: Session, why: str, now: datetime) -> None:
        async with self._house.placing:  # no guest is put there while this is written
            await self._write(idle_step(session, IdleStep.NONE, now, BACK.get(session.idle_step, "in_use_again"), why))
        self._house.notices.take_back(session.id, About.IDLE)

    async def _grow(self, session: Session, now: datetime) -> None:
        """Never before somebody who waits."""
        house = self._house
        if house.book.queues or session.seat is None:
            return
        async with house.placing:
            its_node = [node for node in house.nodes if node.name == session.seat.node]
            room = rooms(its_node, house.book.holding()).get(session.seat.node)
            if room is None:
                return
            room.sit(session, -1)
            seat = grown(session, room)
            if seat is not None:
                await self._write(self._reseated(noted(session, "grown", now, "it has again all that it asked for"), seat, now))

    def _reseated(self, made: Change, seat: Seat, now: datetime) -> Change:
        return reseat(made, replace(seat, charge_parts=charge_parts(seat, Totals.of(self._house.nodes))), now)

    async def _write(self, made: Change) -> None:
        if not await self._house.save([made]):
            return
        log.info("session %s: %s", made.after.id, made.events[0].why)
        if made.after.idle_step is not IdleStep.NONE:
            self._house.notices.tell(made.after.id, About.IDLE, made.after.why)
        self._house.bells.place.set()  # there may be room for guests, or for others


def may_be_idle(session: Session) -> bool:
    holds = session.seat is not None and bool(session.seat.gpus)
    return holds and session.phase is Phase.RUNNING and session.wanted is Wanted.RUN


def is_small(session: Session) -> bool:
    return session.seat is not None and any(gpu.shrunk_from is not None for gpu in session.seat.gpus)
