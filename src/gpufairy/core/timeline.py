"""Timeline: one node's future: who leaves when, and for whom a seat is reserved.

Promises read it with limits, and the high end of what past runs tell; forecasts in several courses that things may take (forecast.py).
"""
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from gpufairy.core.booking import OPEN, Calendar, node_key
from gpufairy.core.fit import fit
from gpufairy.core.lifecycle import Phase
from gpufairy.core.queue import Shape, shape, sitting
from gpufairy.core.room import Room
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import PARTS, ShareKind

NEVER = datetime.max.replace(tzinfo=UTC)
# Somebody this late is not about to leave: a process that cannot be killed, say. Far more than any stop should take.
OVERDUE = timedelta(minutes=10)
# Whoever takes no longer may pass a promise whose time nobody knows. Without that, one endless session and one request for all GPUs
# would keep the others empty for ever; with it, the first in line waits at most an hour more once the endless one has left.
SHORT = timedelta(hours=1)
NOTHING_KNOWN = RunTimes()  # of past runs: limits alone count

Leaving = tuple[datetime, Session]  # one who holds a seat, and when it goes
Openings = Mapping[str, Sequence[datetime]]  # by node
NONE_OPEN: Openings = {}
NOTHING_BOOKED = Calendar()
ClosedAt = Callable[[datetime], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Visit:
    """One who comes to sit: what it asks for, how long it may stay (None: nobody can tell), which GPUs are not for it if it comes then."""

    request: Request
    stay: timedelta | None
    closed_at: ClosedAt | None = None  # None: none ever are
    shut: Mapping[str, str] = field(default_factory=dict)  # GPUs that are not for it whenever it comes, each with why


@dataclass(slots=True)
class Moment:
    """From `when` to the next moment of its node nothing changes."""

    when: datetime
    gone: int  # how many of those who hold seats now have left; at NEVER: of those whose time nobody knows
    room: Room
    came: list[Seat] = field(default_factory=list)  # seats reserved from here on


class Offer(NamedTuple):
    when: datetime
    gone: int  # at the same time, the fewer must leave the better, as for a promise
    position: int  # of the moment
    seat: Seat


class Timeline:
    """One node's future. At NEVER it has a moment for each whose time nobody knows, since nobody knows which of them leaves first."""

    def __init__(self, room: Room, leaving: Iterable[Leaving], now: datetime, openings: Iterable[datetime] = ()) -> None:
        """`openings`: when something that is closed to some opens to them, though nobody leaves."""
        self.node = room.node.name
        self.moments = [Moment(now, 0, room.copy())]
        # By all of a shape but its time: earlier it does not fit. Room only shrinks as seats are reserved, so that stays true.
        self._too_early: dict[Shape, datetime] = {}
        for when, session in sorted(leaving, key=_oldest_first):
            last = self.moments[-1]
            if when > last.when or when == NEVER:
                gone = 0 if last.when < when == NEVER else last.gone
                self.moments.append(last := Moment(when, gone, last.room.copy()))
            last.room.sit(session, -1)
            last.gone += 1
        for when in openings:
            self._moment_at(when)

    def earliest(self, visit: Visit, not_before: datetime | None = None) -> Offer | None:
        """The first seat that it could keep to its end."""
        request = visit.request
        after = 0 if not_before is None else self._moment_at(not_before)

        @cache
        def fits_at(position: int) -> bool:
            room = self.moments[position].room
            return may_fit(request, room) and isinstance(fit(request, room), Seat)

        chance = self._first_chance(request, fits_at)
        position = None if chance is None else max(chance, after)
        while position is not None and position < len(self.moments):
            stay = range(position, self._end_of_stay(position, visit.stay))
            # Whoever leaves only makes room: it can be in the way alone where it begins, and where others come to sit.
            blocked = next((at for at in reversed(stay) if (at == position or self.moments[at].came) and not fits_at(at)), None)
            if blocked is not None:
                position = blocked + 1  # whoever starts sooner than that is still there then
                continue
            when = self.moments[position].when
            answer = fit(request, self._left_throughout(stay, visit.stay), closed_then(visit, when))
            if isinstance(answer, Seat):
                return Offer(when, self.moments[position].gone, position, answer)
            position += 1
        return None

    def not_before(self, request: Request) -> datetime:
        """Before when it cannot come here, however short its stay; as far as was seen."""
        return self._too_early.get(sitting(shape(request)), self.moments[0].when)

    def left_from(self, when: datetime, stay: timedelta | None) -> Room:
        """What nobody else sits in from then on, for so long."""
        position = self.last_at(when)
        return self._left_throughout(range(position, self._end_of_stay(position, stay)), stay)

    def _first_chance(self, request: Request, fits_at: Callable[[int], bool]) -> int | None:
        asked = sitting(shape(request))
        first = bisect_left(self.moments, self._too_early.get(asked, self.moments[0].when), key=_when)
        chance = next((position for position in range(first, len(self.moments)) if fits_at(position)), None)
        self._too_early[asked] = NEVER if chance is None else self.moments[chance].when
        return chance

    def _end_of_stay(self, position: int, limit: timedelta | None) -> int:
        when = self.moments[position].when
        return len(self.moments) if limit is None or when == NEVER else bisect_left(self.moments, when + limit, key=_when)

    def _left_throughout(self, stay: range, limit: timedelta | None) -> Room:
        """Of the room where the stay begins, what nobody else comes to sit in before it ends."""
        left, later = self.moments[stay.start].room.copy(), self.moments[stay.start + 1 : stay.stop]
        if limit is not None and limit > SHORT:
            # As in planning: one who is promised a seat at a time that nobody knows is passed by the short alone.
            later += self.moments[max(stay.stop, bisect_left(self.moments, NEVER, key=_when)) :]
        for moment in later:
            for seat in moment.came:
                left.shrink_to(moment.room, seat)
        return left

    def reserve(self, offer: Offer, stay: timedelta | None) -> None:
        end = len(self.moments)
        if stay is not None and offer.when != NEVER:
            end = self._moment_at(offer.when + stay)
        self.moments[offer.position].came.append(offer.seat)
        for moment in self.moments[offer.position : end]:
            moment.room.take(offer.seat)

    def hold_from(self, when: datetime, seat: Seat, stay: timedelta | None = None) -> None:
        """A seat that somebody has from then on, for so long (None: for nobody knows how long)."""
        position = self._moment_at(when)
        end = len(self.moments) if stay is None or when == NEVER else self._moment_at(when + stay)
        self.moments[position].came.append(seat)
        for moment in self.moments[position:end]:
            moment.room.take(seat)

    def last_at(self, when: datetime) -> int:
        """The position of the moment that is true then; of several at the same time the last, when all who leave then have left."""
        return bisect_right(self.moments, when, key=_when) - 1

    def _moment_at(self, when: datetime) -> int:
        """Its position; made if there is none."""
        after = bisect_right(self.moments, when, key=_when)
        before = self.moments[after - 1]
        if before.when == when:
            return after - 1
        self.moments.insert(after, Moment(when, before.gone, before.room.copy()))
        return after


def _when(moment: Moment) -> datetime:
    return moment.when


def _oldest_first(leaving: Leaving) -> tuple[datetime, datetime, str]:
    """Of those whose time nobody knows whoever came last goes last. A newcomer beside a promise then never puts it off."""
    when, session = leaving
    return when, session.placed_at or session.since, session.id


def may_fit(request: Request, room: Room) -> bool:
    """Soon said: most rooms that are too small are so by this alone."""
    share, guest = request.share, request.preemptible
    if share.kind is ShareKind.WHOLE:
        return sum(gpu.unheld_parts + (gpu.lent_parts if guest else 0) >= PARTS for gpu in room.gpus) >= share.whole_gpus
    if share.kind is ShareKind.FRACTION:
        return any(gpu.unheld_parts + (gpu.lent_parts if guest else 0) >= share.parts for gpu in room.gpus)
    return True


def closed_then(visit: Visit, when: datetime) -> Mapping[str, str]:
    closed = OPEN if visit.closed_at is None or when == NEVER else visit.closed_at(when)
    return {**closed, **visit.shut} if visit.shut else closed


def timelines(
    rooms: Mapping[str, Room],
    holding: Iterable[Session],
    now: datetime,
    run_times: RunTimes = NOTHING_KNOWN,
    calendar: Calendar = NOTHING_BOOKED,
) -> list[Timeline]:
    openings = openings_of(calendar, rooms, now)
    on_node = by_node((min(end_of(session, now, run_times), calendar.leaves_by(session, now) or NEVER), session) for session in holding)
    return [Timeline(room, on_node.get(name, ()), now, openings.get(name, ())) for name, room in rooms.items()]


def by_node(leaving: Iterable[Leaving]) -> dict[str, list[Leaving]]:
    on_node: dict[str, list[Leaving]] = defaultdict(list)
    for when, session in leaving:
        if session.seat is not None:
            on_node[session.seat.node].append((when, session))
    return on_node


def openings_of(calendar: Calendar, rooms: Mapping[str, Room], now: datetime) -> Openings:
    """By node, when bookings of its GPUs are over."""
    ends = [(booking.end, set(booking.gpus)) for booking in calendar.bookings if booking.end > now]
    if not ends:
        return NONE_OPEN
    uuids = {name: {node_key(name), *(gpu.gpu.uuid for gpu in room.gpus)} for name, room in rooms.items()}
    return {name: sorted({end for end, booked in ends if not booked.isdisjoint(here)}) for name, here in uuids.items()}


def best_offer(visit: Visit, lines: Iterable[Timeline], not_before: datetime | None = None) -> tuple[Offer, Timeline] | None:
    offers = [(offer, line) for line in lines if (offer := line.earliest(visit, not_before)) is not None]
    return min(offers, key=lambda made: made[0][:2], default=None)


def end_of(session: Session, now: datetime, run_times: RunTimes = NOTHING_KNOWN) -> datetime:
    """When it must have left, or without a limit when nearly all like it had; one that is past its limit, or told to stop, is about to."""
    end = due(session, now)
    if end is None and (left := run_times.left(session, now)) is not None:
        return now + left.high
    return NEVER if end is None or now - end > OVERDUE else max(end, now)


def due(session: Session, now: datetime) -> datetime | None:
    """As far as limits tell."""
    if session.phase is Phase.STOPPING:
        return session.since
    if session.started_at is None and session.request.time_limit is not None:
        return now + session.request.time_limit
    return session.expected_end
