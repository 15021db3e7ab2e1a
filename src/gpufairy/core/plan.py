"""Plan: who starts now, where, and why the others wait. A pure function of one snapshot.

1. Take the waiting in turn (turn.py).  2. Fit each on every node (fit.py).  3. Of the seats that fit take the least harmful (rank.py).
4. The first of each pool that does not fit is promised the earliest seat it could have (promise.py).
5. Those behind it may pass only where they do not delay that promise.  6. For the first in line others may have to leave (preempt.py).
"""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.core.amounts import show_duration
from gpufairy.core.cluster import Cluster, Totals
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.preempt import Eviction, evictions
from gpufairy.core.promise import Promise, promise_for
from gpufairy.core.queue import Shape, shape
from gpufairy.core.quota import Allowances
from gpufairy.core.rank import harm
from gpufairy.core.room import Room
from gpufairy.core.run_time import Stay, stay_of
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.turn import Line, charge_parts

Key = tuple[Shape, str | None]  # the owner, where the answer hangs on who asks: a quota, a booking, an estimate of their time


@dataclass(frozen=True, slots=True)
class Placement:
    session: Session
    seat: Seat
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    placed: tuple[Placement, ...]
    refusals: Mapping[Key, tuple[Refusal, ...]]  # of every shape looked at and left waiting
    promises: tuple[Promise, ...]  # to the first of each pool that does not fit
    made_at: datetime
    evictions: tuple[Eviction, ...] = ()

    @property
    def promise(self) -> Promise | None:
        """To the very first in line."""
        return self.promises[0] if self.promises else None

    def refusals_of(self, session: Session) -> tuple[Refusal, ...]:
        asked = shape(session.request)
        return self.refusals.get((asked, session.owner)) or self.refusals.get((asked, None), ())


@dataclass(frozen=True, slots=True)
class Asking:
    """What beside the request itself decides whether it may sit somewhere now."""

    stay: Stay
    closed: Mapping[str, str]  # GPUs that are not for it now, each with why


def plan(cluster: Cluster, now: datetime) -> Plan:
    work = Pass(cluster, now)
    line = Line(cluster, now, work.refused_for)
    for session in line:
        if session.id in work.seated:
            continue  # with the rest of its gang
        group = cluster.together(session)
        found = work.seats_for(group)
        if not isinstance(found, list):
            line.refused(session)
            work.refuse(group, found)
            continue
        for member, seat in zip(group, found, strict=True):
            line.placed(member, seat.charge_parts)
        if len(work.placed) >= cluster.policy.depth:
            break
    return work.done()


class Pass:
    """The scratch of one planning pass."""

    def __init__(self, cluster: Cluster, now: datetime) -> None:
        self._cluster, self._now = cluster, now
        self._rooms, self._totals = cluster.rooms(), Totals.of(cluster.nodes)
        self._allowances = Allowances(cluster.quotas, cluster.holding, cluster.week, now)
        self._promises: dict[str | None, Promise] = {}  # by pool
        self._heads: list[Session] = []
        self._refusals: dict[Key, tuple[Refusal, ...]] = {}
        self.placed: list[Placement] = []
        self.seated: set[str] = set()

    def refused_for(self, owner: str) -> "RefusedFor":
        return RefusedFor(self, owner)

    def is_refused(self, asked: Shape, owner: str) -> bool:
        if (asked, owner) in self._refusals:
            return True
        return (asked, None) in self._refusals and not self._own_case(owner, asked)

    def seats_for(self, group: Sequence[Session]) -> list[Seat] | tuple[Refusal, ...]:
        """All or none. The seats are taken."""
        seats: list[Seat] = []
        for member in group:
            answer = self._seat_for(member)
            if not isinstance(answer, Seat):
                for session, seat in zip(group, seats, strict=False):
                    self._take(session, seat, -1)
                return answer if len(group) == 1 else all_at_once(answer, len(seats), len(group))
            seats.append(replace(answer, charge_parts=charge_parts(answer, self._totals)))
            self._take(member, seats[-1])
        for session, seat in zip(group, seats, strict=True):
            waited = f"waited {show_duration(self._now - session.submitted_at)}, goes to {seat.node}"
            self.placed.append(Placement(session, seat, waited))
            self.seated.add(session.id)
        return seats

    def refuse(self, group: Sequence[Session], refusals: tuple[Refusal, ...]) -> None:
        session, asked = group[0], shape(group[0].request)
        own = self._own_case(session.owner, asked) or any(refusal.node == "" for refusal in refusals)
        self._refusals[asked, session.owner if own else None] = refusals
        if any(refusal.node == "" for refusal in refusals):
            return  # a quota: no room would help, so none is kept
        pool = session.request.pool
        if pool not in self._promises:
            self._heads.append(session)
            holding = [*self._cluster.holding, *(seated(one, self._now) for one in self.placed)]
            promise = promise_for(group, self._rooms, holding, self._now, self._promises.values())
            if promise is not None:
                self._promises[pool] = promise
        elif self._cluster.calendar.concerns(session.owner, session.team):
            self._heads.append(session)  # what is booked for it may be lent out

    def done(self) -> Plan:
        leave = evictions(self._cluster, self._heads, self._rooms, self._now)
        return Plan(tuple(self.placed), self._refusals, tuple(self._promises.values()), self._now, leave)

    def _seat_for(self, session: Session) -> Seat | tuple[Refusal, ...]:
        asking = asking_of(session, self._cluster, self._now)
        answer = seat_for(session.request, self._rooms.values(), self._promises.values(), self._now, asking)
        if not isinstance(answer, Seat):
            return answer
        over = self._allowances.refusal(session, answer)
        return answer if over is None else (Refusal("", over),)

    def _take(self, session: Session, seat: Seat, sign: int = 1) -> None:
        stay = stay_of(session, self._cluster.run_times)
        spares = [promise.spare_on(seat.node, stay, self._now) for promise in self._promises.values()]
        for room in [self._rooms[seat.node], *(spare for spare in spares if spare is not None)]:
            room.take(seat) if sign > 0 else room.give_back(seat)
        self._allowances.placed(session, seat, sign)

    def _own_case(self, owner: str, asked: Shape) -> bool:
        """Whether others' answers say nothing of this owner's."""
        if asked.time_limit is None and self._cluster.run_times.of(owner, asked.image) is not None:
            return True
        return self._cluster.calendar.concerns(owner, None) or self._allowances.concerns(owner, None)


class RefusedFor:
    """The shapes that this pass has refused an owner, as a container."""

    def __init__(self, work: Pass, owner: str) -> None:
        self._work, self._owner = work, owner

    def __contains__(self, asked: object) -> bool:
        return isinstance(asked, Shape) and self._work.is_refused(asked, self._owner)


def asking_of(session: Session, cluster: Cluster, now: datetime) -> Asking:
    stay = stay_of(session, cluster.run_times)
    return Asking(stay, cluster.calendar.closed_to(session.owner, session.team, stay.time, now))


def seat_for(
    request: Request, rooms: Iterable[Room], promises: Iterable[Promise], now: datetime, asking: Asking
) -> Seat | tuple[Refusal, ...]:
    """The least harmful seat, or a refusal for every node."""
    seats, refusals = [], []
    for room in rooms:
        answer = fit_beside(request, room, promises, now, asking)
        if isinstance(answer, Seat):
            seats.append((harm(answer, room), room.node.name, answer))
        else:
            refusals.append(answer)
    return min(seats)[2] if seats else tuple(refusals)


def fit_beside(request: Request, room: Room, promises: Iterable[Promise], now: datetime, asking: Asking) -> Seat | Refusal:
    """As fit, but what a promise needs at its time is not there for those who would still sit in it."""
    answer = fit(request, room, asking.closed)
    if isinstance(answer, Refusal):
        return answer
    spares = [spare for promise in promises if (spare := promise.spare_on(room.node.name, asking.stay, now)) is not None]
    if not spares:
        return answer
    left = room
    for spare in spares:
        left = left.shared_with(spare)
    answer = fit(request, left, asking.closed)
    if isinstance(answer, Refusal):
        # Not by name: whose session it is, and what they call it, is nobody else's business.
        return Refusal(room.node.name, f"{room.node.name} has room, kept for the first in line")
    return answer


def all_at_once(refusals: tuple[Refusal, ...], found: int, wanted: int) -> tuple[Refusal, ...]:
    more = f"; {found} of the {wanted} that start together would fit"
    return tuple(replace(one, why=one.why + more) if one.node else one for one in refusals)


def seated(placement: Placement, now: datetime) -> Session:
    return replace(placement.session, seat=placement.seat, placed_at=now, started_at=now)
