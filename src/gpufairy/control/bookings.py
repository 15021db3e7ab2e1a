"""Bookings: those that are not over, kept in memory as the store has them. Who may book for whom, making, cancelling, the calendar."""
import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gpufairy.control.clock import Clock
from gpufairy.control.registry import Caller, Registry
from gpufairy.control.teams import Teams
from gpufairy.core.amounts import show_count, shown
from gpufairy.core.booking import NEVER_USED, Booking, Calendar, Use
from gpufairy.core.booking_choice import BookingAsk, Limits, full_words, make_booking
from gpufairy.core.booking_repair import Place, places
from gpufairy.core.errors import Conflict, NoSuchThing, NotAllowed
from gpufairy.core.lifecycle import Phase
from gpufairy.core.names import idempotency_key, nearest
from gpufairy.core.node import Node
from gpufairy.core.session import Session
from gpufairy.core.steps import Event
from gpufairy.store.bookings import Bookings as StoredBookings

PAST_SHOWN = 1000  # rows of one answer
NO_LIMITS_SAID = Limits()


class Bookings:
    def __init__(self, store: StoredBookings, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self.limits = NO_LIMITS_SAID
        self.closed: Callable[[], Sequence[Booking]] = tuple  # what is out of use, as if it were booked for nobody
        self._bookings: dict[str, Booking] = {}
        self._used_at: Mapping[Use, datetime] = NEVER_USED
        self._known: dict[str, Place] = {}  # of every GPU ever seen by this server, where it was
        self._one_at_a_time = asyncio.Lock()  # two that are made at once must see each other

    async def load(self) -> None:
        now = self._clock()
        self._bookings = {one.id: one for one in await self._store.not_over(now)}
        # Who was there when the server went is not known: nobody's GPU is lent before they could come back.
        self._used_at = {(one.id, gpu): now for one in self._bookings.values() if one.runs(now) for gpu in one.gpus}

    def coming(self) -> list[Booking]:
        """Those that are not over, by their start."""
        now = self._clock()
        return sorted((one for one in self._bookings.values() if one.end > now), key=lambda one: (one.start, one.id))

    def calendar(self, holding: Iterable[Session], now: datetime | None = None, *, and_closed: bool = False) -> Calendar:
        """`holding`: all sessions with a seat. `now`: where the caller compares times with it. `and_closed`: what is out of use, too,
        for whoever looks for room; nobody is sent away for it."""
        bookings = (*self._bookings.values(), *(self.closed() if and_closed else ()))
        made = Calendar.of(bookings, holding, now or self._clock(), self._used_at)
        self._used_at = made.used_at
        return made

    def known(self, nodes: Sequence[Node]) -> Mapping[str, Place]:
        """Where every GPU is, or was before it went."""
        if self._bookings:
            self._known.update(places(nodes))
        return self._known

    def get(self, booking_id: str) -> Booking:
        found = self._bookings.get(booking_id)
        if found is None or found.end <= self._clock():
            raise NoSuchThing(f"no booking {shown(booking_id)}{nearest(booking_id, self._bookings)}", "See `fairy book list`.")
        return found

    async def past(self, since: datetime, until: datetime) -> list[Booking]:
        return await self._store.over(since, min(until, self._clock()), PAST_SHOWN)

    async def make(self, ask: BookingAsk, nodes: Sequence[Node], holding: Sequence[Session], key: str | None = None) -> Booking:
        """Sent twice with the same `key` it is one booking, though it may be over by now."""
        async with self._one_at_a_time:
            booking_id = await self._new_id() if key is None else id_of_key(ask.made_by, key)
            if (before := await self._store.get(booking_id)) is not None:
                return as_asked_before(before, ask)
            now, coming = self._clock(), [*self.coming(), *self.closed()]
            made = make_booking(ask, booking_id, nodes=nodes, bookings=coming, holding=holding, limits=self.limits, now=now)
            until = f"{full_words(made.start)} to {full_words(made.end)}"
            await self._put(made, f"{show_count(len(made.gpus), 'GPU')} for {', '.join(made.who)}, {until}", "booked", ask.made_by)
            return made

    async def cancel(self, caller: Caller, booking_id: str) -> Booking:
        """One that runs ends now, and stays in the history; one to come is as if it had never been."""
        async with self._one_at_a_time:
            booking, now = self.get(booking_id), self._clock()
            if not (caller.is_admin or caller.user.name == booking.made_by):
                raise NotAllowed(f"booking {booking.id} was made by {booking.made_by}", "Ask them, or an admin, to cancel it.")
            if booking.start < now:
                ended = replace(booking, end=now)
                await self._put(ended, "ended before its time", "booking_cancelled", caller.user.name)
                return ended
            event = booking_event(booking, "booking_cancelled", now, "cancelled before it began", caller.user.name)
            await self._store.remove(booking.id, event)
            del self._bookings[booking.id]
            return booking

    async def change(self, before: Booking, after: Booking, why: str) -> bool:
        """By the server itself. False: it was cancelled, or changed, in the meantime."""
        async with self._one_at_a_time:
            if self._bookings.get(before.id) != before:
                return False
            await self._put(after, why, "booking_moved", "")
            return True

    def forget_over(self) -> None:
        now = self._clock()
        self._bookings = {key: one for key, one in self._bookings.items() if one.end > now}

    async def _put(self, booking: Booking, why: str, what: str, actor: str) -> None:
        await self._store.put(booking, booking_event(booking, what, self._clock(), why, actor))
        self._bookings[booking.id] = booking

    async def _new_id(self) -> str:
        """Short, since people type it. Not one of the history's either."""
        while await self._store.get(made := secrets.token_hex(3)) is not None:
            pass
        return made


def people_meant(registry: Registry, teams: Teams, caller: Caller, users: Sequence[str], team: str | None) -> tuple[str, ...]:
    """Whom it is for: those named, else the caller. Raises for people nobody knows, and for those the caller cannot speak for."""
    if team is not None:
        if not caller.is_admin and team != caller.user.team:
            raise NotAllowed(f"team: {caller.user.name} is not in team {shown(team)}", f"Your team is {caller.user.team or 'none'}.")
        teams.team(team)
    for name in users:
        registry.user(name)
        if not caller.is_admin and name != caller.user.name:
            raise NotAllowed(f"user: {caller.user.name} may book for themselves and their team", "Ask an admin to book for others.")
    named = [*(f"user:{name}" for name in users), *([f"team:{team}"] if team is not None else [])]
    return tuple(dict.fromkeys(named)) or (f"user:{caller.user.name}",)


def id_of_key(made_by: str, key: str) -> str:
    return hashlib.sha256(f"{made_by}\n{idempotency_key(key)}".encode()).hexdigest()[:8]


def as_asked_before(before: Booking, ask: BookingAsk) -> Booking:
    same = (before.made_by, before.title, before.end, len(before.gpus)) == (ask.made_by, ask.title, ask.end, ask.count)
    if not same:
        raise Conflict(f"booking {before.id} was made with this Idempotency-Key and is another", "Send a new key with a new booking.")
    return before


def booking_event(booking: Booking, what: str, now: datetime, why: str, actor: str = "") -> Event:
    """Among the events of whoever made it. Its phase means nothing."""
    return Event(booking.id, booking.made_by, booking.title, now, what, Phase.ENDED, why, 0, actor=actor)
