"""Plan: who starts now, where, and why the others wait. A pure function of one snapshot.

1. Take the waiting in turn (turn.py).  2. Try the nodes in the order of what a seat there costs those who come later (floor.py).
3. The first on which it fits (fit.py), beside what is promised, is its seat.
4. The first of each pool that does not fit is promised the earliest seat it could have (promise.py).
5. Those behind it may pass only where they do not delay that promise.  6. For the first in line others may have to leave (preempt.py).
"""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from gpufairy.core.amounts import show_duration
from gpufairy.core.booking import NO_GPUS, OPEN
from gpufairy.core.cluster import Cluster
from gpufairy.core.fit import NO_PREFERENCE, Preference, Refusal, fit, seats_together
from gpufairy.core.floor import Floor
from gpufairy.core.pool import pool_coming
from gpufairy.core.preempt import Eviction, Preempt, evictions
from gpufairy.core.promise import Promise, promise_for
from gpufairy.core.queue import Asked, Shape, asked_of, shape
from gpufairy.core.quota import Allowances
from gpufairy.core.room import Room
from gpufairy.core.run_time import Stay, stay_of
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.turn import Line, charge_parts

Who = tuple[str, str | None]  # the owner and the team
Key = tuple[Shape, Who | None]  # who, where the answer hangs on who asks: a quota, a booking, an estimate of their time


@dataclass(frozen=True, slots=True)
class Placement:
    session: Session
    seat: Seat
    waited: timedelta
    passed: bool = False  # it goes past somebody who was before it in line and is promised a seat

    @property
    def why(self) -> str:
        waited, pool = f"waited {show_duration(self.waited)}", pool_coming(self.seat.node)
        return f"{waited}, goes to {self.seat.node}" if pool is None else f"{waited}, a node of pool {pool} is woken for it"


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
        return self.refusals.get((asked, who_asks(session))) or self.refusals.get((asked, None), ())


@dataclass(frozen=True, slots=True)
class Asking:
    """What beside the request itself decides whether it may sit somewhere now."""

    stay: Stay
    closed: Mapping[str, str]  # GPUs that are not for it now, each with why
    booked: frozenset[str] = NO_GPUS  # GPUs that are for it and a few others alone now: no promise holds there


def plan(cluster: Cluster, now: datetime, floor: Floor | None = None) -> Plan:
    """`floor`: kept from pass to pass, it makes the next one short. What is placed is on it until it follows another picture."""
    work = Pass(cluster, now, Floor() if floor is None else floor)
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

    def __init__(self, cluster: Cluster, now: datetime, floor: Floor) -> None:
        self._cluster, self._now, self._floor = cluster, now, floor
        floor.follow(cluster.nodes, cluster.holding)
        self._allowances = Allowances(cluster.quotas, cluster.holding, cluster.week, now, cluster.nodes)
        self._promises: dict[str | None, Promise] = {}  # by pool
        self._heads: list[Session] = []  # to whom something is promised, and that others may have to leave for
        self._owed: list[Session] = []  # whose booked GPUs are lent out
        self._lent_out = cluster.calendar.lent_out(cluster.holding, now)
        self._kept: dict[str, str] = {}  # lent GPUs that somebody of their booking waits for, each with why: no more borrowers there
        self._still_leaving = cluster.still_leaving()
        self._refusals: dict[Key, tuple[Refusal, ...]] = {}
        self.placed: list[Placement] = []
        self.seated: set[str] = set()

    def refused_for(self, owner: str) -> "RefusedFor":
        return RefusedFor(self, owner)

    def is_refused(self, asked: Asked, owner: str) -> bool:
        if (asked.shape, (owner, asked.team)) in self._refusals:
            return True
        return (asked.shape, None) in self._refusals and not self._own_case(owner, asked)

    def seats_for(self, group: Sequence[Session]) -> list[Seat] | tuple[Refusal, ...]:
        """All or none. The seats are taken."""
        if (mate := self._still_leaving.get(group[0].request.gang or "")) is not None:
            return (Refusal("", f"{mate.name}, which starts together with it, has not left its place yet"),)
        seats: list[Seat] = []
        for member in group:
            answer = self._seat_for(member)
            if not isinstance(answer, Seat):
                for session, seat in zip(group, seats, strict=False):
                    self._take(session, seat, -1)
                return answer if len(group) == 1 else all_at_once(answer, len(seats), len(group))
            # Spelt out: `replace` takes four times as long, and this is done for everybody who starts.
            charge = charge_parts(answer, self._floor.totals)
            seats.append(Seat(answer.node, answer.cpus_milli, answer.memory_bytes, answer.gpus, charge))
            self._take(member, seats[-1])
        for session, seat in zip(group, seats, strict=True):
            self.placed.append(Placement(session, seat, self._now - session.submitted_at, bool(self._promises)))
            self.seated.add(session.id)
        return seats

    def refuse(self, group: Sequence[Session], refusals: tuple[Refusal, ...]) -> None:
        session, asked = group[0], asked_of(group[0])
        own = self._own_case(session.owner, asked) or any(refusal.node == "" for refusal in refusals)
        self._refusals[asked.shape, who_asks(session) if own else None] = refusals
        if any(refusal.node == "" for refusal in refusals):
            return  # a quota, or somebody of its gang: no room would help, so none is kept
        pool = session.request.pool
        is_owed = any(booking.is_for(session.owner, session.team) for booking in self._lent_out)
        if is_owed and not session.request.preemptible:
            self._owed.append(session)
            self._keep_booked(group)
        if pool not in self._promises:
            hopes = partial(self._floor.hopes, session.request, self._now, calendar=self._cluster.calendar)
            promise = promise_for(
                group, hopes, self._now, self._promises.values(),
                run_times=self._cluster.run_times, calendar=self._cluster.calendar,
                shut=self._allowances.closed(session) if self._cluster.quotas else OPEN,
            )
            if promise is not None:
                self._promises[pool] = promise
                self._heads += [] if is_owed else [session]

    def done(self) -> Plan:
        heads = [*self._owed, *self._heads]
        leave = evictions(self._cluster, heads, self._floor.rooms, self._now, self._promises.values())
        return Plan(tuple(self.placed), self._refusals, tuple(self._promises.values()), self._now, leave)

    def _seat_for(self, session: Session) -> Seat | tuple[Refusal, ...]:
        asking = asking_of(session, self._cluster, self._now)
        if self._cluster.quotas:
            over = self._allowances.refusal_anywhere(session)
            if over is not None:
                return (Refusal("", over),)
            if shut := self._allowances.closed(session):
                asking = replace(asking, closed={**asking.closed, **shut})

        if self._kept and session.request.preemptible:
            asking = replace(asking, closed={**asking.closed, **self._kept}, booked=asking.booked - self._kept.keys())

        def fitted(room: Room, prefer: Preference) -> Seat | Refusal:
            return fit_beside(session.request, room, self._promises.values(), self._now, asking, prefer=prefer)

        answer = self._floor.seat(session, fitted, asking.closed)
        if not isinstance(answer, Seat) or not self._cluster.quotas:
            return answer
        over = self._allowances.refusal(session, answer)
        return answer if over is None else (Refusal("", over),)

    def _keep_booked(self, group: Sequence[Session]) -> None:
        """Lend no more of what is booked for them, if they start once the borrowers have left.

        Borrowers come last in line, so those of this pass are still to come. One seated now could not be sent away before the next
        pass (preempt.py looks at those who run), and until then nobody would be: the others would leave in vain.
        """
        head, calendar = group[0], self._cluster.calendar
        booked = calendar.booked_for(head.owner, head.team, self._now)
        borrowers = [one for one in self._cluster.holding if one.request.preemptible and calendar.owed(head, one, self._now)]
        nodes = {one.seat.node for one in borrowers if one.seat is not None} if len(group) == 1 else self._floor.rooms.keys()
        rooms = {node: self._floor.rooms[node].copy() for node in nodes if node in self._floor.rooms}
        for one in borrowers:
            if one.seat is not None and one.seat.node in rooms:
                rooms[one.seat.node].sit(one, -1)
        stay = stay_of(head, self._cluster.run_times)
        closed = calendar.closed_to(head.owner, head.team, stay.time, self._now)
        if seats_together([one.request for one in group], rooms, closed) is not None:
            self._kept.update(dict.fromkeys(booked, "booked, and somebody of the booking waits for it"))

    def _take(self, session: Session, seat: Seat, sign: int = 1) -> None:
        for promise in self._promises.values():
            spare = promise.spare_on(seat.node, stay_of(session, self._cluster.run_times), self._now)
            if spare is not None:
                spare.take(seat) if sign > 0 else spare.give_back(seat)
        self._floor.take(session, seat) if sign > 0 else self._floor.give_back(session)
        if self._cluster.quotas:
            self._allowances.placed(session, seat, sign)

    def _own_case(self, owner: str, asked: Asked) -> bool:
        """Whether others' answers say nothing of this owner's."""
        if asked.shape.time_limit is None and self._cluster.run_times.of(owner, asked.shape.image) is not None:
            return True
        return self._cluster.calendar.concerns(owner, asked.team) or self._allowances.concerns(owner, asked.team)


class RefusedFor:
    """What this pass has refused an owner, as a container."""

    def __init__(self, work: Pass, owner: str) -> None:
        self._work, self._owner = work, owner

    def __contains__(self, asked: object) -> bool:
        return isinstance(asked, Asked) and self._work.is_refused(asked, self._owner)


def who_asks(session: Session) -> Who:
    return session.owner, session.team


def asking_of(session: Session, cluster: Cluster, now: datetime) -> Asking:
    stay = stay_of(session, cluster.run_times)
    if not cluster.calendar.bookings:
        return Asking(stay, OPEN)
    owner, team, calendar = session.owner, session.team, cluster.calendar
    guest = session.request.preemptible
    # Who is promised a GPU when its booking is over sends a guest away then: where nobody is sent away, no guest may pass it.
    booked = calendar.booked_for(owner, team, now, guest=guest and cluster.policy.preempt is not Preempt.OFF)
    return Asking(stay, calendar.closed_to(owner, team, stay.time, now, guest=guest), booked)


def seat_for(
    request: Request, rooms: Iterable[Room], promises: Iterable[Promise], now: datetime, asking: Asking
) -> Seat | tuple[Refusal, ...]:
    """Any seat, or a refusal for every node: for those who only ask whether."""
    refusals = []
    for room in rooms:
        answer = fit_beside(request, room, promises, now, asking)
        if isinstance(answer, Seat):
            return answer
        refusals.append(answer)
    return tuple(refusals)


def fit_beside(
    request: Request, room: Room, promises: Iterable[Promise], now: datetime, asking: Asking, *, prefer: Preference = NO_PREFERENCE
) -> Seat | Refusal:
    """As fit, but what a promise needs at its time is not there for those who would still sit in it."""
    answer = fit(request, room, asking.closed, prefer)
    if isinstance(answer, Refusal):
        return answer
    spares = [spare for promise in promises if (spare := promise.spare_on(room.node.name, asking.stay, now)) is not None]
    if not spares:
        return answer
    left = room
    for spare in spares:
        left = left.shared_with(spare)
    answer = fit(request, left, asking.closed, prefer)
    if isinstance(answer, Refusal) and asking.booked and isinstance(own := fit_booked(request, room, asking.booked), Seat) and own.gpus:
        return own
    if isinstance(answer, Refusal):
        # Not by name: whose session it is, and what they call it, is nobody else's business.
        return Refusal(room.node.name, f"{room.node.name} has room, kept for the first in line")
    return answer


def fit_booked(request: Request, room: Room, booked: frozenset[str]) -> Seat | Refusal:
    """On what is booked for it, and nowhere else: whoever is promised something there waits for the end of the booking."""
    return fit(request, room, {gpu.gpu.uuid: "not booked for it" for gpu in room.gpus if gpu.gpu.uuid not in booked})


def all_at_once(refusals: tuple[Refusal, ...], found: int, wanted: int) -> tuple[Refusal, ...]:
    more = f"; {found} of the {wanted} that start together would fit"
    return tuple(replace(one, why=one.why + more) if one.node else one for one in refusals)
