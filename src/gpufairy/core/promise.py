"""Promise: the earliest seats that the first in line of a pool could have, if those who hold seats leave when their time is up.

A gang is promised a time at which all of it fits. What passes a promise must be gone by then, or sit where nobody was promised anything.
"""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.fit import fit
from gpufairy.core.room import Room
from gpufairy.core.run_time import Stay
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.timeline import NEVER, SHORT, Timeline, best_offer, timelines

# Whoever has waited so long is passed by nobody on an estimate of their time: one that is wrong cannot keep anybody waiting for ever.
PATIENCE = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Promise:
    session: Session  # of a gang, the first
    start: datetime | None  # None: it waits for somebody whose time nobody knows
    seats: tuple[Seat, ...]
    spares: Mapping[str, Room]  # by node, at that time, the promised seats taken: what others may still sit in

    @property
    def node(self) -> str:
        return self.seats[0].node

    def lets_pass(self, stay: Stay, now: datetime) -> bool:
        """Whether one that stays so long may sit in what is promised until then."""
        if stay.time is None or (not stay.sure and now - self.session.submitted_at > PATIENCE):
            return False
        return stay.time <= SHORT if self.start is None else now + stay.time <= self.start

    def spare_on(self, node: str, stay: Stay, now: datetime) -> Room | None:
        """What of that node's room it must leave alone is not in here. None: all of the room is open to it."""
        spare = self.spares.get(node)
        return None if spare is None or self.lets_pass(stay, now) else spare


def promise_for(
    group: Sequence[Session], rooms: Mapping[str, Room], holding: Sequence[Session], now: datetime, before: Iterable[Promise] = ()
) -> Promise | None:
    """`before`: promises that stand already. None: it fits nowhere even when all have left (a node is drained, say)."""
    request = group[0].request
    hopeful = {name: room for name, room in rooms.items() if isinstance(fit(request, Room.empty(room.node)), Seat)}
    lines = {line.node: line for line in timelines(hopeful, holding, now)}
    for promise in before:
        for seat in promise.seats:
            if seat.node in lines:
                lines[seat.node].hold_from(promise.start or NEVER, seat)
    found = _alone(request, list(lines.values())) if len(group) == 1 else _together([one.request for one in group], list(lines.values()))
    if found is None:
        return None
    when, seats, spares = found
    return Promise(group[0], None if when == NEVER else when, seats, spares)


Found = tuple[datetime, tuple[Seat, ...], Mapping[str, Room]]


def _alone(request: Request, lines: Sequence[Timeline]) -> Found | None:
    best = best_offer(request, lines)
    if best is None:
        return None
    offer, line = best
    line.reserve(offer, None)
    return offer.when, (offer.seat,), {offer.seat.node: line.moments[offer.position].room}


def _together(requests: Sequence[Request], lines: Sequence[Timeline]) -> Found | None:
    """At the first moment at which all of them fit. What happens between now and then to those who hold seats is as for one alone."""
    times = sorted({moment.when for line in lines for moment in line.moments})
    for when in times:
        rooms = {line.node: line.moments[line.last_at(when)].room.copy() for line in lines}
        seats = seats_together(requests, rooms)
        if seats is not None:
            return when, tuple(seats), {seat.node: rooms[seat.node] for seat in seats}
    return None


def seats_together(requests: Sequence[Request], rooms: Mapping[str, Room]) -> list[Seat] | None:
    """All or none, each on the first node that has room; the rooms are then less the seats."""
    seats: list[Seat] = []
    for request in requests:
        seat = next((answer for room in rooms.values() if isinstance(answer := fit(request, room), Seat)), None)
        if seat is None:
            return None
        rooms[seat.node].take(seat)
        seats.append(seat)
    return seats
