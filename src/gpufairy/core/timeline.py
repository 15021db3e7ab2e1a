"""Timeline: one node's future, as far as time limits tell it: who leaves when, and for whom a seat is reserved.

Promises and forecasts both read it, so that they cannot disagree.
"""
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from gpufairy.core.fit import fit
from gpufairy.core.lifecycle import Phase
from gpufairy.core.queue import Shape, shape, sitting
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session

NEVER = datetime.max.replace(tzinfo=UTC)
# Somebody this late is not about to leave: a process that cannot be killed, say. Far more than any stop should take.
OVERDUE = timedelta(minutes=10)
# Whoever takes no longer may pass a promise whose time nobody knows. Without that, one endless session and one request for all GPUs
# would keep the others empty for ever; with it, the first in line waits at most an hour more once the endless one has left.
SHORT = timedelta(hours=1)


@dataclass(slots=True)
class Moment:
    """From `when` to the next moment of its node nothing changes."""

    when: datetime
    gone: int  # how many of those who hold seats now have left
    room: Room
    came: list[Seat] = field(default_factory=list)  # seats reserved from here on


class Offer(NamedTuple):
    when: datetime
    gone: int  # at the same time, the fewer must leave the better, as for a promise
    position: int  # of the moment
    seat: Seat


class Timeline:
    """One node's future. At NEVER it has a moment for each who has no time limit, since nobody knows which of them leaves first."""

    def __init__(self, room: Room, holding: Iterable[Session], now: datetime) -> None:
        self.node = room.node.name
        self.moments = [Moment(now, 0, room.copy())]
        # By all of a shape but its time: earlier it does not fit. Room only shrinks as seats are reserved, so that stays true.
        self._too_early: dict[Shape, datetime] = {}
        for when, _, session in sorted((end_of(s, now), s.id, s) for s in holding if s.seat is not None):
            last = self.moments[-1]
            if when > last.when or when == NEVER:
                self.moments.append(last := Moment(when, last.gone, last.room.copy()))
            last.room.sit(session, -1)
            last.gone += 1

    def earliest(self, request: Request) -> Offer | None:
        """The first seat that it could keep to its end."""

        @cache
        def fits_at(position: int) -> bool:
            return isinstance(fit(request, self.moments[position].room), Seat)

        position: int | None = self._first_chance(request, fits_at)
        while position is not None and position < len(self.moments):
            stay = range(position, self._end_of_stay(position, request.time_limit))
            blocked = next((later for later in reversed(stay) if not fits_at(later)), None)
            if blocked is not None:
                position = blocked + 1  # whoever starts sooner than that is still there then
                continue
            answer = fit(request, self._left_throughout(stay, request.time_limit))
            if isinstance(answer, Seat):
                return Offer(self.moments[position].when, self.moments[position].gone, position, answer)
            position += 1
        return None

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

    def reserve(self, offer: Offer, limit: timedelta | None) -> None:
        end = len(self.moments)
        if limit is not None and offer.when != NEVER:
            end = self._moment_at(offer.when + limit)
        self.moments[offer.position].came.append(offer.seat)
        for moment in self.moments[offer.position : end]:
            moment.room.take(offer.seat)

    def hold_from(self, when: datetime, seat: Seat) -> None:
        """A seat that is promised to somebody: from then on, for nobody knows how long."""
        position = self.last_at(when)
        if self.moments[position].when < when:
            position = self._moment_at(when)
        self.moments[position].came.append(seat)
        for moment in self.moments[position:]:
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


def timelines(rooms: Mapping[str, Room], holding: Iterable[Session], now: datetime) -> list[Timeline]:
    on_node: dict[str, list[Session]] = defaultdict(list)
    for session in holding:
        if session.seat is not None:
            on_node[session.seat.node].append(session)
    return [Timeline(room, on_node[name], now) for name, room in rooms.items()]


def best_offer(request: Request, lines: Sequence[Timeline]) -> tuple[Offer, Timeline] | None:
    offers = [(offer, line) for line in lines if (offer := line.earliest(request)) is not None]
    return min(offers, key=lambda made: made[0][:2], default=None)


def end_of(session: Session, now: datetime) -> datetime:
    """When it must have left; one that is past its limit, or told to stop, is about to."""
    end = due(session, now)
    return NEVER if end is None or now - end > OVERDUE else max(end, now)


def due(session: Session, now: datetime) -> datetime | None:
    if session.phase is Phase.STOPPING:
        return session.since
    if session.started_at is None and session.request.time_limit is not None:
        return now + session.request.time_limit
    return session.expected_end
