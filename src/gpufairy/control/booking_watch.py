"""The bookings loop: tells those who must leave for a booking, sends them away when it begins, and mends bookings whose GPUs are lost."""
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from gpufairy.control.bookings import booking_event
from gpufairy.control.converge import obey
from gpufairy.control.house import House
from gpufairy.control.notices import About
from gpufairy.core.amounts import show_duration
from gpufairy.core.booking import NOTICE, Booking, Calendar, clock_words, gpus_of
from gpufairy.core.booking_repair import mended, troubles
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reconcile import Deed, Order
from gpufairy.core.session import Session
from gpufairy.core.steps import can_be_sent, noted, send_back
from gpufairy.core.workload import workload_id

log = logging.getLogger("gpufairy.bookings")

MEND_AFTER = timedelta(minutes=5)  # a driver that is reloaded, or a machine that starts anew, is back by then

Unit = tuple[Session, ...]  # who leaves together: one session, or all of a gang, since what is left of one could not go on
Told = tuple[str, int, str]  # a session's id and attempt, a booking's id


class BookingWatch:
    def __init__(self, house: House) -> None:
        self._house = house
        self._ahead: set[Told] = set()  # told, when they came, that they must leave at some time
        self._soon: dict[Told, datetime] = {}  # told that it is near, and when: after a restart they are told again
        self._lost: dict[tuple[str, str], datetime] = {}  # since when a booking lacks a GPU
        self._short: set[tuple[str, str]] = set()  # those for which there was no other

    async def look(self) -> None:
        """A loop's turn."""
        house, now = self._house, self._house.clock()
        house.bookings.forget_over()
        await self._mend(house.bookings.coming(), now)
        calendar = house.bookings.calendar(house.book.holding(), now)
        units = units_of(house.book.holding()) if calendar.bookings else []
        self._forget({told(one, booking) for unit in units for booking in in_the_way_of(unit, calendar) for one in unit})
        for unit in units:
            if (booking := first(calendar.unwelcome(one, now) for one in unit)) is not None:
                await self._send_away(unit, booking, now)
            elif (booking := first(calendar.must_leave_for(one, now) for one in unit)) is not None:
                for session in filter(can_be_sent, unit):
                    await self._tell(session, booking, now)

    async def _tell(self, session: Session, booking: Booking, now: datetime) -> None:
        key, near = told(session, booking), booking.start - now <= NOTICE
        if key in self._soon or (key in self._ahead and not near):
            return
        at = f"{clock_words(booking.start, now)}, in {show_duration(booking.start - now)}"
        why = f"{whose(session, booking)} is booked for {booking.title} from {at}: if it still runs then, it goes back into the queue"
        if not near and await self._house.save([noted(session, "booking_ahead", now, why)]):
            self._ahead.add(key)
        elif near:
            await self._warn(session, key, why, now)

    async def _warn(self, session: Session, key: Told, why: str, now: datetime) -> None:
        if await self._house.save([noted(session, "booking_near", now, why)]):
            self._soon[key] = now
            self._house.notices.tell(session.id, About.BOOKING, why)

    async def _send_away(self, unit: Unit, booking: Booking, now: datetime) -> None:
        """Never without a word before: who was not told in time, because the booking is that young, is told now."""
        notice = self._house.policy.preempt_notice
        if any(one.phase is Phase.PLACED for one in unit):
            return  # that one starts in a moment, and then all leave at once
        for session in unit:
            key = told(session, booking)
            if key in self._soon:
                self._soon[key] = min(self._soon[key], now)  # a clock that was put back must not keep it there
            else:
                why = f"{whose(session, booking)} is booked for {booking.title}: it goes back into the queue in {show_duration(notice)}"
                await self._warn(session, key, why, now)
        told_at = [self._soon[key] for one in unit if (key := told(one, booking)) in self._soon]
        if len(told_at) < len(unit) or now - max(told_at) < notice:
            return
        log.info("session %s leaves for booking %s", unit[0].id, booking.id)
        until, grace = clock_words(booking.end, now), self._house.policy.stop_grace
        # Wanted is still RUN: when it is gone, it waits in the queue again.
        sent_back = [send_back(one, now, f"{whose(one, booking)} is booked for {booking.title} until {until}") for one in unit]
        await obey(self._house, [Order(one, Deed.STOP, workload=workload_id(one.before), grace=grace) for one in sent_back])

    async def _mend(self, coming: Sequence[Booking], now: datetime) -> None:
        house, known = self._house, self._house.bookings.known(self._house.nodes)
        calendar, lost = house.bookings.calendar(house.book.holding(), now), {}
        for booking in coming:
            for gpu, why in troubles(booking, house.nodes, known).items():
                lost[booking.id, gpu] = since = min(self._lost.get((booking.id, gpu), now), now)
                in_use = calendar.used_at.get((booking.id, gpu)) == now  # who still runs there keeps it
                if now - since >= MEND_AFTER and not in_use and await self._replace(booking, gpu, why, now):
                    break  # the next look takes the next one, from what is written by then
        self._lost = lost
        self._short &= set(lost)

    async def _replace(self, booking: Booking, gpu: str, why: str, now: datetime) -> bool:
        house, known = self._house, self._house.bookings.known(self._house.nodes)
        coming, holding = house.bookings.coming(), list(house.book.holding())
        after = mended(booking, gpu, nodes=house.nodes, bookings=coming, holding=holding, known=known, now=now)
        if after is not None:
            (new,) = set(after.gpus) - set(booking.gpus)
            return await house.bookings.change(booking, after, f"{why}: {known[new]} takes its place")
        if (booking.id, gpu) not in self._short:
            self._short.add((booking.id, gpu))
            await house.store.events.add(booking_event(booking, "booking_short", now, f"{why}, and no other like it is free"))
        return False

    def _forget(self, still: set[Told]) -> None:
        """Those who have left, and those whose booking was cancelled or has other GPUs now."""
        self._ahead &= still
        for key in self._soon.keys() - still:
            del self._soon[key]
            self._house.notices.take_back(key[0], About.BOOKING)


def told(session: Session, booking: Booking) -> Told:
    return session.id, session.attempt, booking.id


def units_of(holding: Iterable[Session]) -> list[Unit]:
    """Of those who could leave, or are about to start and could then."""
    gangs: dict[str, list[Session]] = {}
    for one in holding:
        if can_be_sent(one) or one.phase is Phase.PLACED:
            gangs.setdefault(one.request.gang or one.id, []).append(one)
    return [tuple(gang) for gang in gangs.values()]


def in_the_way_of(unit: Unit, calendar: Calendar) -> set[Booking]:
    return {booking for one in unit for booking in calendar.in_the_way_of(one)}


def first(bookings: Iterable[Booking | None]) -> Booking | None:
    return min((one for one in bookings if one is not None), key=lambda one: (one.start, one.id), default=None)


def whose(session: Session, booking: Booking) -> str:
    return "its GPU" if not set(gpus_of(session)).isdisjoint(booking.gpus) else "a GPU of one that started with it"
