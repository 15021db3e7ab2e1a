"""Plan: who starts now, where, and why the others wait. A pure function of one snapshot.

1. Take the waiting in turn (turn.py).  2. Fit each on every node (fit.py).  3. Of the seats that fit take the least harmful (rank.py).
4. The first that does not fit is promised the earliest seat it could have (promise.py).
5. Those behind it may pass only where they do not delay that promise.
"""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from gpufairy.core.amounts import show_duration
from gpufairy.core.cluster import Cluster, Totals
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.promise import Promise, promise_for
from gpufairy.core.rank import harm
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import Share
from gpufairy.core.turn import Line, charge_parts


class Shape(NamedTuple):
    """What of a request decides whether it fits: in one pass room only shrinks, so one answer serves all of a shape."""

    share: Share
    cpus_milli: int | None
    memory_bytes: int | None
    gpu_kind: str | None
    pool: str | None
    time_limit: timedelta | None


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
    line = Line(cluster, now, passed_over=lambda waiting: shape(waiting.request) in refusals)
    for looked_at, session in enumerate(line):
        if looked_at >= cluster.policy.depth:
            break
        seat = seat_for(session.request, rooms.values(), promise, now)
        if isinstance(seat, Seat):
            seat = replace(seat, charge_parts=charge_parts(seat, totals))
            take(seat, rooms, promise, ends=now + session.request.time_limit if session.request.time_limit else None)
            line.placed(session, seat.charge_parts)
            placed.append(Placement(session, seat, f"waited {show_duration(now - session.submitted_at)}, goes to {seat.node}"))
            continue
        line.refused(session)
        refusals[shape(session.request)] = seat
        if promise is None:
            promise = promise_for(session, rooms, [*cluster.holding, *(seated(p, now) for p in placed)], now)
    return Plan(tuple(placed), refusals, promise, now)


def shape(request: Request) -> Shape:
    return Shape(request.share, request.cpus_milli, request.memory_bytes, request.gpu_kind, request.pool, request.time_limit)


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
    if promise is None or promise.node != room.node.name or promise.done_before(now, request.time_limit):
        return fit(request, room)
    answer = fit(request, room.shared_with(promise.spare))
    if isinstance(answer, Refusal) and isinstance(fit(request, room), Seat):
        return Refusal(room.node.name, f"{room.node.name} has room, kept for {promise.session.name}, which is next in line")
    return answer


def take(seat: Seat, rooms: Mapping[str, Room], promise: Promise | None, ends: datetime | None) -> None:
    rooms[seat.node].take(seat)
    if promise is not None and promise.node == seat.node and not (promise.start and ends and ends <= promise.start):
        promise.spare.take(seat)


def seated(placement: Placement, now: datetime) -> Session:
    return replace(placement.session, seat=placement.seat, placed_at=now, started_at=now)
