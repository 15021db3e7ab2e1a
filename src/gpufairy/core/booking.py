"""Booking: GPUs that are for certain people for a certain time. The queue works around it; what is not used is lent.

The GPUs are named when the booking is made (booking_choice.py), so that two bookings can be told to overlap, and a calendar can be drawn.
"""
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from gpufairy.core.amounts import show_duration
from gpufairy.core.session import Session

OPEN: Mapping[str, str] = {}  # no GPU is closed to them
# Nobody of the booking on a GPU for so long: it is lent. A class comes late, and somebody whose program failed starts it again.
UNUSED_AFTER = timedelta(minutes=15)
# Whoever nobody can tell the time of may not start on a booked GPU from so long before the booking. Most sessions are over in a day;
# longer would leave the GPU empty, shorter would send more of them away.
LEAD = timedelta(hours=24)
NOTICE = timedelta(minutes=30)  # so long before the start those who must leave are told again: time to save their work

Use = tuple[str, str]  # a booking's id and one of its GPUs
Closing = tuple[datetime, tuple[str, ...], bool]  # now, the ids of the bookings that are in somebody's way, whether it is a guest
NEVER_USED: Mapping[Use, datetime] = {}
NO_GPUS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Booking:
    id: str
    title: str
    made_by: str
    who: tuple[str, ...]  # user:NAME, team:NAME; nobody: its GPUs are out of use
    gpus: tuple[str, ...]  # UUIDs; for maintenance the `node_key` of the host, too
    start: datetime
    end: datetime
    made_at: datetime

    def is_for(self, owner: str, team: str | None) -> bool:
        return is_among(self.who, owner, team)

    def runs(self, now: datetime) -> bool:
        return self.start <= now < self.end

    def overlaps(self, start: datetime, end: datetime) -> bool:
        return self.start < end and start < self.end


@dataclass(frozen=True, slots=True)
class Calendar:
    """All bookings that are not over, and who has come. Made by `of`, anew for every look."""

    bookings: tuple[Booking, ...] = ()  # by their start
    used_at: Mapping[Use, datetime] = field(default_factory=dict)  # when somebody of the booking was last seen on the GPU
    _of_gpu: dict[str, list[Booking]] = field(default_factory=dict, init=False, compare=False, repr=False)
    _told: dict[Closing, Mapping[str, str]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for booking in self.bookings:
            for gpu in booking.gpus:
                self._of_gpu.setdefault(gpu, []).append(booking)

    @classmethod
    def of(
        cls, bookings: Iterable[Booking], holding: Iterable[Session], now: datetime, used_at: Mapping[Use, datetime] = NEVER_USED
    ) -> Self:
        """`holding`: all sessions with a seat. `used_at`: as the calendar before had it, so that a short absence is none."""
        coming = tuple(sorted((one for one in bookings if one.end > now), key=lambda one: (one.start, one.id)))
        if not coming:
            return cls()
        known = {one.id for one in coming}
        used = {use: at for use, at in used_at.items() if use[0] in known}
        booked = by_gpu(one for one in coming if one.runs(now))
        for session in holding if booked else ():
            for gpu in gpus_of(session):
                if gpu in booked and booked[gpu].is_for(session.owner, session.team):
                    used[booked[gpu].id, gpu] = now
        return cls(coming, used)

    def closed_to(
        self, owner: str, team: str | None, stay: timedelta | None, now: datetime, *, guest: bool = False
    ) -> Mapping[str, str]:
        """GPUs, by UUID, on which a session of theirs that stays so long (None: nobody knows) may not start now, each with why.

        `guest`: it is preemptible, so that it may sit on what is booked and not used, until it is wanted.
        """
        closing = tuple(one for one in self.bookings if not one.is_for(owner, team) and closes(one, stay, now, guest))
        if not closing:
            return OPEN
        own, told = self.booked_for(owner, team, now), self._words(closing, now, guest)
        # Who has the GPU now may use it, whatever follows: a class would else find its own GPUs shut because of the next one.
        return told if own.isdisjoint(told) else {gpu: why for gpu, why in told.items() if gpu not in own}

    def concerns(self, owner: str, team: str | None) -> bool:
        """Whether any booking is theirs: then what is closed to others may be open to them."""
        return any(one.is_for(owner, team) for one in self.bookings)

    def booked_for(self, owner: str, team: str | None, now: datetime, *, guest: bool = False) -> frozenset[str]:
        """The GPUs that are theirs now. Of a guest those that are lent, too: the others may not have them before the end."""
        running = [(one, gpu) for one in self.bookings if one.runs(now) for gpu in one.gpus]
        return frozenset(gpu for one, gpu in running if one.is_for(owner, team) or (guest and self.is_lent(one, gpu, now)))

    def without(self, booking_id: str) -> Self:
        return type(self)(tuple(one for one in self.bookings if one.id != booking_id), self.used_at)

    def is_lent(self, booking: Booking, gpu: str, now: datetime) -> bool:
        """The booking runs, and nobody of it has been on that GPU for a while: guests may be, until somebody comes."""
        if not booking.who:
            return False
        last = max(booking.start, self.used_at.get((booking.id, gpu), booking.start))
        return booking.runs(now) and now - last >= UNUSED_AFTER

    def is_guest(self, session: Session, now: datetime) -> bool:
        """It sits on what is booked for others, and was lent."""
        return any(self.is_lent(booking, gpu, now) for booking, gpu in self._sat_on(session) if booking.runs(now))

    def owed(self, session: Session, guest: Session, now: datetime) -> tuple[str, ...]:
        """The GPUs on which `guest` sits, and that are booked for `session` now: it may have them back."""
        sat_on = [(booking, gpu) for booking, gpu in self._sat_on(guest) if booking.runs(now)]
        return tuple(gpu for booking, gpu in sat_on if booking.is_for(session.owner, session.team))

    def lent_out(self, holding: Iterable[Session], now: datetime) -> tuple[Booking, ...]:
        """Those that run, and on whose GPUs a guest sits."""
        guests = [one for one in holding if one.request.preemptible] if self.bookings else []
        return tuple(dict.fromkeys(booking for guest in guests for booking, _ in self._sat_on(guest) if booking.runs(now)))

    def unwelcome(self, session: Session, now: datetime) -> Booking | None:
        """For which booking it has to leave now; None: it may stay."""
        for booking, gpu in self._sat_on(session):
            if booking.runs(now) and not (session.request.preemptible and self.is_lent(booking, gpu, now)):
                return booking
        return None

    def must_leave_for(self, session: Session, now: datetime) -> Booking | None:
        """The next booking at whose start it would still be there, as far as its limit tells."""
        end = session.expected_end
        later = [booking for booking, _ in self._sat_on(session) if booking.start > now and (end is None or end > booking.start)]
        return min(later, key=lambda one: (one.start, one.id), default=None)

    def in_the_way_of(self, session: Session) -> tuple[Booking, ...]:
        """Others' bookings of the GPUs on which it sits."""
        return tuple(dict.fromkeys(booking for booking, _ in self._sat_on(session)))

    def leaves_by(self, session: Session, now: datetime) -> datetime | None:
        """When it is sent away, if it is still there; None: by no booking."""
        if self.unwelcome(session, now) is not None:
            return now
        booking = self.must_leave_for(session, now)
        return None if booking is None else booking.start

    def _sat_on(self, session: Session) -> Iterator[tuple[Booking, str]]:
        """Of others' bookings, those that have a GPU on which it sits."""
        for gpu in gpus_of(session) if self.bookings else ():
            yield from ((one, gpu) for one in self._of_gpu.get(gpu, ()) if not one.is_for(session.owner, session.team))

    def _words(self, closing: tuple[Booking, ...], now: datetime, guest: bool) -> Mapping[str, str]:
        """Made once for all who are told the same: a pass asks a thousand times."""
        asked = now, tuple(one.id for one in closing), guest
        if asked not in self._told:
            told: dict[str, str] = {}
            for booking in closing:
                for gpu in booking.gpus:
                    if not (guest and self.is_lent(booking, gpu, now)):
                        told.setdefault(gpu, why_closed(booking, now, lent=self.is_lent(booking, gpu, now)))
            self._told[asked] = told
        return self._told[asked]


def node_key(name: str) -> str:
    """A whole host among what is booked. No UUID of a GPU has a colon in it."""
    return f"node:{name}"


def is_among(who: Sequence[str], owner: str, team: str | None) -> bool:
    return f"user:{owner}" in who or (team is not None and f"team:{team}" in who)


def closes(booking: Booking, stay: timedelta | None, now: datetime, guest: bool) -> bool:
    """Whether it is in the way of somebody else who would start now and stay so long."""
    if booking.start <= now:
        return now < booking.end
    if guest and booking.who:
        return False  # it leaves when it is told; for maintenance nobody is
    return booking.start - now <= LEAD if stay is None else now + stay > booking.start


def why_closed(booking: Booking, now: datetime, *, lent: bool = False) -> str:
    if now < booking.start:
        return f"booked for {booking.title} from {clock_words(booking.start, now)}, in {about(booking.start - now)}"
    free = "; not used, so preemptible sessions may have it" if lent else ""
    return f"booked for {booking.title} until {clock_words(booking.end, now)}{free}"


def clock_words(at: datetime, now: datetime) -> str:
    """`14:00 UTC`; with the day where it is not within a day of now."""
    return f"{at:%H:%M} UTC" if abs(at - now) < timedelta(hours=24) else f"{at:%Y-%m-%d %H:%M} UTC"


def about(time: timedelta) -> str:
    """To the minute: what is asked for a thousand times in a row should read the same."""
    return show_duration(timedelta(minutes=max(1, round(time / timedelta(minutes=1)))))


def by_gpu(bookings: Iterable[Booking]) -> dict[str, Booking]:
    """Of bookings at the same time, which never share a GPU."""
    return {gpu: booking for booking in bookings for gpu in booking.gpus}


def gpus_of(session: Session) -> tuple[str, ...]:
    return () if session.seat is None else tuple(dict.fromkeys(part.uuid for part in session.seat.gpus))
