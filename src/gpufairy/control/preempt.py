"""The preempt loop: tells those who are to make room, and asks them to leave when their notice is over and it is still needed.

Guests leave at once when their host is back: they came knowing that.
"""
import logging
from collections.abc import Sequence
from datetime import datetime

from gpufairy.control.converge import obey
from gpufairy.control.house import House
from gpufairy.control.notices import About
from gpufairy.core.amounts import show_duration
from gpufairy.core.guests import guest_moves
from gpufairy.core.lifecycle import Phase
from gpufairy.core.preempt import Eviction, is_guest
from gpufairy.core.reconcile import Deed, Order
from gpufairy.core.session import Session
from gpufairy.core.steps import Change, can_be_sent, noted, reseat, send_back
from gpufairy.core.workload import workload_id

log = logging.getLogger("gpufairy.preempt")

Told = tuple[str, int]  # a session's id and attempt


class Preemption:
    def __init__(self, house: House) -> None:
        self._house = house
        self._told: dict[Told, datetime] = {}  # after a restart they are told again: nobody leaves without a word

    async def look(self) -> None:
        """A loop's turn."""
        await self._move_guests()
        await self._make_room()

    async def _move_guests(self) -> None:
        house = self._house
        if not any(map(is_guest, house.book.holding())):
            return
        async with house.placing:
            now, cluster = house.clock(), house.cluster()
            moves = guest_moves(cluster.holding, cluster.rooms(), now)
            await house.save([reseat(told_to_stay(guest, now), seat, now) for guest, seat in moves.stay])
            await self._send_away(moves.leave, now)

    async def _make_room(self) -> None:
        house, now, wanted = self._house, self._house.clock(), self._house.plan.evictions
        self._forget({key(eviction.victim) for eviction in wanted})
        due, early = [], set()
        for eviction in wanted:
            told_at = self._told.get(key(eviction.victim))
            if told_at is None:
                await self._tell(eviction, now)
            # Only by a plan that was made since: what needed the place then may have found another.
            if told_at is not None and house.plan.made_at - told_at >= house.policy.preempt_notice:
                due.append(eviction)
            else:
                early.add(eviction.victim.request.gang or eviction.victim.id)
        await self._send_away([one for one in due if (one.victim.request.gang or one.victim.id) not in early], now)

    def _forget(self, wanted: set[Told]) -> None:
        for told in self._told.keys() - wanted:
            del self._told[told]
            self._house.notices.take_back(told[0], About.PREEMPTION)

    async def _tell(self, eviction: Eviction, now: datetime) -> None:
        victim, notice = self._house.book.get(eviction.victim.id), self._house.policy.preempt_notice
        if victim is None or not can_be_sent(victim):
            return
        leaves_at = now + notice
        why = f"{eviction.why}. At {leaves_at:%H:%M:%S} UTC, in {show_duration(notice)}, it goes back into the queue: save your work"
        if await self._house.save([noted(victim, "preempt_notice", now, why)]):
            self._told[key(victim)] = now
            self._house.notices.tell(victim.id, About.PREEMPTION, why)

    async def _send_away(self, evictions: Sequence[Eviction], now: datetime) -> None:
        """In one write: of a gang all leave, or none. One of whom somebody is only placed leaves in a moment."""
        orders, grace = [], self._house.policy.stop_grace
        live = [(eviction, victim) for eviction in evictions if (victim := self._house.book.get(eviction.victim.id)) is not None]
        only_placed = {victim.request.gang for _, victim in live if victim.phase is Phase.PLACED}
        for eviction, victim in live:
            waits = victim.request.gang is not None and victim.request.gang in only_placed
            if key(victim) == key(eviction.victim) and can_be_sent(victim) and not waits:
                log.info("session %s goes back into the queue: %s", victim.id, eviction.why)
                orders.append(Order(send_back(victim, now, eviction.why), Deed.STOP, workload=workload_id(victim), grace=grace))
        await obey(self._house, orders)


def key(session: Session) -> Told:
    return session.id, session.attempt


def told_to_stay(guest: Session, now: datetime) -> Change:
    return noted(guest, "no_longer_guest", now, "whose GPU it borrowed has left: the place is its own")
