"""Plan: who starts now, where, and why the others wait. A pure function of one snapshot.

1. Take the waiting in turn (turn.py).  2. Fit each on every node (fit.py).  3. Of the seats that fit take the least harmful (rank.py).
4. The first that does not fit is promised the earliest seat it could have (promise.py).
5. Those behind it may pass only where they do not delay that promise.
"""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.core.amounts import show_duration
from gpufairy.core.cluster import Cluster, Totals
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.promise import Promise, promise_for
from gpufairy.core.queue import Shape, shape
from gpufairy.core.rank import harm
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.turn import Line, charge_parts


@dataclass(frozen=True, slots=True)
class Placement:
    session: Session
    seat: Seat
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    placed: tuple[Placement, ...]
    refusals: Mapping[Shape, tuple[Refusal, ...]]  # of every shape looked at and left waiting
    promise: Promise | None  # to the first in line that does not fit
    made_at: datetime

    def refusals_of(self, session: Session) -> tuple[Refusal, ...]:
        return self.refusals.get(shape(session.request), ())


def plan(cluster: Cluster, now: datetime) -> Plan:
    rooms, totals = cluster.rooms(), Totals.of(cluster.nodes)
    placed: list[Placement] = []
    refusals: dict[Shape, tuple[Refusal, ...]] = {}
    promise: Promise | None = None
    line = Line(cluster, now, refusals)
    for session in line:
        seat = seat_for(session.request, rooms.values(), promise, now)
        if not isinstance(seat, Seat):
            line.refused(session)
            refusals[shape(session.request)] = seat
            if promise is None:
                promise = promise_for(session, rooms, [*cluster.holding, *(seated(p, now) for p in placed)], now)
            continue
        seat = replace(seat, charge_parts=charge_parts(seat, totals))
        take(seat, session.request, rooms, promise, now)
        line.placed(session, seat.charge_parts)
        placed.append(Placement(session, seat, f"waited {show_duration(now - session.submitted_at)}, goes to {seat.node}"))
        if len(placed) >= cluster.policy.depth:
            break
    return Plan(tuple(placed), refusals, promise, now)


def seat_for(request: Request, rooms: Iterable[Room], promise: Promise | None, now: datetime) -> Seat | tuple[Refusal, ...]:
    """The least harmful seat, or a refusal for every node."""
    seats, refusals = [], []
    for room in rooms:
        answer = fit_beside(request, room, promise, now)
        if isinstance(answer, Seat):
            seats.append((harm(answer, room), room.node.name, answer))
        else:
            refusals.append(answer)
    return min(seats)[2] if seats else tuple(refusals)


def fit_beside(request: Request, room: Room, promise: Promise | None, now: datetime) -> Seat | Refusal:
    """As fit, but what a promise needs at its time is not there for those who would still sit in it."""
    answer = fit(request, room)
    if isinstance(answer, Refusal) or promise is None or promise.node != room.node.name or promise.lets_pass(request, now):
        return answer
    answer = fit(request, room.shared_with(promise.spare))
    if isinstance(answer, Refusal):
        # Not by name: whose session it is, and what they call it, is nobody else's business.
        return Refusal(room.node.name, f"{room.node.name} has room, kept for the first in line")
    return answer


def take(seat: Seat, request: Request, rooms: Mapping[str, Room], promise: Promise | None, now: datetime) -> None:
    rooms[seat.node].take(seat)
    if promise is not None and promise.node == seat.node and not promise.lets_pass(request, now):
        promise.spare.take(seat)


def seated(placement: Placement, now: datetime) -> Session:
    return replace(placement.session, seat=placement.seat, placed_at=now, started_at=now)
