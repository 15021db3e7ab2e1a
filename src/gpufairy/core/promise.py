"""Promise: the earliest seats that the first in line of a pool could have, if those who hold seats leave when their time is up.

A gang is promised a time at which all of it fits. What passes a promise must be gone by then, or sit where nobody was promised anything.
"""
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from gpufairy.core.booking import OPEN, Calendar
from gpufairy.core.hope import Hope
from gpufairy.core.promise_gang import Found, together
from gpufairy.core.room import Room
from gpufairy.core.run_time import RunTimes, Stay, stay_of
from gpufairy.core.session import Seat, Session
from gpufairy.core.timeline import NEVER, NOTHING_BOOKED, NOTHING_KNOWN, SHORT, Offer, Timeline, Visit, timelines

# Whoever has waited so long is passed by nobody on an estimate of their time, and is promised a seat by limits alone: estimates that are
# wrong cannot keep anybody waiting for ever, nor send a promise from node to node while others sit down where it has just been.
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
    group: Sequence[Session], hopes: Callable[[RunTimes], Iterator[Hope]], now: datetime, before: Collection[Promise] = (),
    *, run_times: RunTimes = NOTHING_KNOWN, calendar: Calendar = NOTHING_BOOKED, shut: Mapping[str, str] = OPEN,
) -> Promise | None:  # fmt: skip
    """`hopes`: where it might fit, the nearest first. `before`: promises that stand already. `shut`: GPUs that a quota closes to it, each
    with why: what it may not have is not kept from others.

    None: it fits nowhere even when all have left (a node is drained, say).
    """
    request = group[0].request
    known = run_times if now - group[0].submitted_at <= PATIENCE else NOTHING_KNOWN
    lines = ((hope, _line(hope, now, before, known, calendar)) for hope in hopes(known))
    closed_at = partial(closed_then, group[0], calendar, run_times)
    if len(group) == 1:
        found = _alone(Visit(request, request.time_limit, closed_at, shut), lines)
    else:
        found = together([one.request for one in group], lines, closed_at, shut)
    if found is None:
        return None
    when, seats, spares = found
    return Promise(group[0], None if when == NEVER else when, seats, spares)


def closed_then(session: Session, calendar: Calendar, run_times: RunTimes, when: datetime) -> Mapping[str, str]:
    """The GPUs on which it may not start then."""
    stay = stay_of(session, run_times)
    return calendar.closed_to(session.owner, session.team, stay.time, when, guest=session.request.preemptible)


def _line(hope: Hope, now: datetime, before: Iterable[Promise], known: RunTimes, calendar: Calendar) -> Timeline:
    """With the seats that others are promised there."""
    name = hope.room.node.name
    (line,) = timelines({name: hope.room}, hope.holding, now, known, calendar)
    for promise in before:
        for seat in promise.seats:
            if seat.node == name:
                line.hold_from(promise.start or NEVER, seat)
    return line


def _alone(visit: Visit, lines: Iterable[tuple[Hope, Timeline]]) -> Found | None:
    best: tuple[Offer, Timeline] | None = None
    for hope, line in lines:
        if best is not None and hope[:2] >= best[0][:2]:
            break  # neither this node nor one of those behind it has an earlier seat
        offer = line.earliest(visit)
        if offer is not None and (best is None or offer[:2] < best[0][:2]):
            best = offer, line
    if best is None:
        return None
    offer, line = best
    line.reserve(offer, None)
    return offer.when, (offer.seat,), {offer.seat.node: line.moments[offer.position].room}
