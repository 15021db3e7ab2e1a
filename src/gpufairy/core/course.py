"""Course: one way things may go: everybody who has a seat, and everybody who gets one, stays as long as was drawn for it.

Seats are given in turn, each the earliest that is left, so that nobody ahead is delayed; a forecast (forecast.py) looks at several courses.
"""
import heapq
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from zlib import crc32

from gpufairy.core.cluster import Cluster
from gpufairy.core.fit import fit, seats_together
from gpufairy.core.lifecycle import Phase
from gpufairy.core.queue import Shape, shape, sitting
from gpufairy.core.quota import Allowances
from gpufairy.core.quota_rules import rules_for
from gpufairy.core.room import Room
from gpufairy.core.run_time import stay_of
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.timeline import NEVER, Leaving, Offer, Timeline, Visit, best_offer, by_node, closed_then, due, end_of, openings_of

QUOTA_LOOKS = 20  # at times when a quota may let somebody start; beyond, it is said that nobody can tell


class Found(NamedTuple):
    """A seat in one course. `over`: the quota for which it had to wait longer than for room, in words."""

    when: datetime
    seat: Seat | None
    over: str = ""


@dataclass(frozen=True, slots=True)
class Spell:
    """One who sits, from when to when."""

    since: datetime
    until: datetime
    session: Session


class Ground:
    """What all courses of one look ahead have in common."""

    def __init__(self, cluster: Cluster, rooms: Mapping[str, Room], now: datetime) -> None:
        self.cluster, self.now = cluster, now
        self.rooms = list(rooms.values())
        self.openings = openings_of(cluster.calendar, rooms, now)
        self._under_quota: dict[tuple[str, str | None], bool] = {}
        self._hopes: dict[Shape, list[tuple[int, bool]]] = {}

    def visit(self, session: Session, patient: bool) -> Visit:
        """`patient`: somebody ahead has waited so long that an estimate of its time lets it pass nobody (promise.py)."""
        stay = stay_of(session, self.cluster.run_times)
        time = stay.time if stay.sure or not patient else None
        calendar = self.cluster.calendar
        if not calendar.bookings:
            return Visit(session.request, time)
        guest = session.request.preemptible
        return Visit(session.request, time, lambda when: calendar.closed_to(session.owner, session.team, time, when, guest=guest))

    def under_quota(self, session: Session) -> bool:
        who = session.owner, session.team
        if who not in self._under_quota:
            self._under_quota[who] = bool(rules_for(self.cluster.quotas, *who))
        return self._under_quota[who]

    def hopes(self, request: Request) -> list[tuple[int, bool]]:
        """The places of nodes that could ever have it, each with whether it has room now."""
        asked = sitting(shape(request))
        if asked not in self._hopes:
            able = [place for place, room in enumerate(self.rooms) if isinstance(fit(request, Room.empty(room.node)), Seat)]
            self._hopes[asked] = [(place, isinstance(fit(request, self.rooms[place]), Seat)) for place in able]
        return self._hopes[asked]


class Course:
    def __init__(self, ground: Ground, number: int = 0, of: int = 1) -> None:
        """`of`: how many there are, 1 or a prime, so that each one's draws are dealt to them in an order of its own."""
        self._ground, self._number, self._of, self._now = ground, number, of, ground.now
        calendar, held = ground.cluster.calendar, [session for session in ground.cluster.holding if session.seat is not None]
        sent_away = {session.id: calendar.leaves_by(session, ground.now) or NEVER for session in held}
        self.spells = [Spell(ground.now, min(self._end(session), sent_away[session.id]), session) for session in held]
        self._leaving = by_node((spell.until, spell.session) for spell in self.spells)
        self._lines: dict[int, Timeline] = {}  # by the node's place; made when somebody looks there
        # Of all that ask for the same a heap: before when they cannot come, and where. Room only shrinks, so that stays true.
        self._bounds: dict[Shape, list[tuple[datetime, int]]] = {}

    def seat(self, group: Sequence[Session], patient: bool) -> Found | None:
        """The earliest seat of the first of them, with whom the others start; theirs is then taken. None: there will never be one."""
        session, visit = group[0], self._ground.visit(group[0], patient)
        if len(group) > 1:
            return self._together(group, visit)
        if self._ground.under_quota(session):
            return self._under_quota(session, visit)
        best = self._best(session, visit)
        return None if best is None else self._reserved(session, *best)

    def leavers(self, group: Sequence[Session], seat: Seat, when: datetime) -> tuple[Leaving, ...]:
        """Who must have left that seat of theirs by then, the last one last."""
        own, on_node = {session.id for session in group}, self._leaving.get(seat.node, ())
        there = [one for one in on_node if self._now < one[0] <= when and one[1].id not in own and shares_gpu(one[1], seat)]
        return tuple(sorted(there, key=lambda one: one[0]))

    def _under_quota(self, session: Session, visit: Visit) -> Found | None:
        """From one end of those who count against the same quotas to the next: in between nothing changes about them."""
        when, over = self._now, ""
        for _ in range(QUOTA_LOOKS):
            changes, allowances = self._next_end(session, when), self._allowances(when)
            refused = allowances.refusal_anywhere(session)
            if refused is None:
                shut = allowances.closed(session)
                best = best_offer(with_closed(visit, shut), self._hopeful(session.request), when)
                if best is None and not shut:
                    return None
                if best is not None and best[0].when < changes:
                    return self._reserved(session, *best, over)
                refused = next(iter(shut.values()), over)
            if changes == NEVER:
                return Found(NEVER, None, refused)
            when, over = changes, refused
        return Found(NEVER, None, over)

    def _reserved(self, session: Session, offer: Offer, line: Timeline, over: str = "") -> Found:
        line.reserve(offer, self._taken(session, offer.when, offer.seat))
        return Found(offer.when, offer.seat, over)

    def _best(self, session: Session, visit: Visit) -> tuple[Offer, Timeline] | None:
        """As best_offer over all nodes, but looks only where something better might be found."""
        bounds = self._bounds_of(session.request)
        best: tuple[datetime, int, int, Offer] | None = None
        looked: list[tuple[datetime, int]] = []
        while bounds and (best is None or bounds[0][0] <= best[0]):
            _, place = heapq.heappop(bounds)
            line = self._line(place)
            offer = line.earliest(visit)
            looked.append((line.not_before(session.request), place))
            if offer is not None and (best is None or (offer.when, offer.gone, place) < best[:3]):
                best = offer.when, offer.gone, place, offer
        for bound in looked:
            heapq.heappush(bounds, bound)
        return None if best is None else (best[3], self._line(best[2]))

    def _bounds_of(self, request: Request) -> list[tuple[datetime, int]]:
        asked = sitting(shape(request))
        if asked not in self._bounds:
            hopes = self._ground.hopes(request)
            self._bounds[asked] = [(self._now if fits_now else self._first_change(place), place) for place, fits_now in hopes]
            heapq.heapify(self._bounds[asked])
        return self._bounds[asked]

    def _first_change(self, place: int) -> datetime:
        name = self._ground.rooms[place].node.name
        ends = [when for when, _ in self._leaving.get(name, ())]
        return min([*ends, *self._ground.openings.get(name, ())], default=NEVER)

    def _line(self, place: int) -> Timeline:
        if place not in self._lines:
            room = self._ground.rooms[place]
            name = room.node.name
            self._lines[place] = Timeline(room, self._leaving.get(name, ()), self._now, self._ground.openings.get(name, ()))
        return self._lines[place]

    def _hopeful(self, request: Request) -> list[Timeline]:
        return [self._line(place) for place, _ in self._ground.hopes(request)]

    def _together(self, group: Sequence[Session], visit: Visit) -> Found | None:
        """At the first of the times looked at at which all of them fit. That once they fit they do later, too, is nearly always so."""
        lines = {line.node: line for line in self._hopeful(visit.request)}
        times = sorted({moment.when for line in lines.values() for moment in line.moments})
        requests = [session.request for session in group]

        def seats_at(when: datetime) -> list[Seat] | None:
            rooms = {name: line.left_from(when, visit.stay) for name, line in lines.items()}
            closed = closed_then(visit, when)
            return seats_together(requests, rooms, closed)

        first = bisect_left(times, True, key=lambda when: seats_at(when) is not None)
        seats = seats_at(times[first]) if first < len(times) else None
        if seats is None:
            return None
        for session, seat in zip(group, seats, strict=True):
            lines[seat.node].hold_from(times[first], seat, self._taken(session, times[first], seat))
        return Found(times[first], seats[0])

    def _taken(self, session: Session, when: datetime, seat: Seat) -> timedelta | None:
        """Notes that it sits there from then on; for how long."""
        stay = self._ground.cluster.run_times.drawn(session, self._now, level_of(session.id, self._number, self._of))
        until = NEVER if stay is None or when == NEVER else when + stay
        sitting = replace(session, seat=seat, placed_at=when, started_at=when)
        self.spells.append(Spell(when, until, sitting))
        self._leaving[seat.node].append((until, sitting))
        return stay

    def _allowances(self, when: datetime) -> Allowances:
        cluster, there = self._ground.cluster, [spell.session for spell in self.spells if spell.since <= when < spell.until]
        return Allowances(cluster.quotas, there, cluster.week, when, cluster.nodes)

    def _next_end(self, session: Session, when: datetime) -> datetime:
        """Of those who count against the same quotas."""
        return min((spell.until for spell in self.spells if spell.until > when and akin(spell.session, session)), default=NEVER)

    def _end(self, session: Session) -> datetime:
        """When one who has a seat leaves it in this course."""
        end, cluster = due(session, self._now), self._ground.cluster
        if session.phase in (Phase.STOPPING, Phase.LOST) or (end is not None and end < self._now):
            return end_of(session, self._now)
        left = cluster.run_times.drawn(session, self._now, level_of(session.id, self._number, self._of))
        sent_away = cluster.calendar.leaves_by(session, self._now) if cluster.calendar.bookings else None
        return min(NEVER if left is None else self._now + left, sent_away or NEVER)


def level_of(session_id: str, course: int, of: int) -> float:
    """Each one's draws are spread evenly over the courses, and each one's in an order that hangs on nothing but its id."""
    dealt = crc32(session_id.encode())
    step, first = 1 + dealt % max(1, of - 1), dealt // of % of
    return ((course * step + first) % of + 0.5) / of


def with_closed(visit: Visit, shut: Mapping[str, str]) -> Visit:
    """Those GPUs are not for it, whenever it comes."""
    return replace(visit, closed_at=lambda when: {**closed_then(visit, when), **shut}) if shut else visit


def shares_gpu(session: Session, seat: Seat) -> bool:
    """Where no GPU is asked for, whoever sits on the node may be in the way."""
    wanted = {part.uuid for part in seat.gpus}
    return not wanted or (session.seat is not None and any(part.uuid in wanted for part in session.seat.gpus))


def akin(one: Session, other: Session) -> bool:
    return one.owner == other.owner or (one.team is not None and one.team == other.team)
