"""Promise: the earliest seat the first in line could have, if those who hold seats leave when their time is up."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.fit import fit
from gpufairy.core.room import Room
from gpufairy.core.session import Seat, Session

NEVER = datetime.max


@dataclass(frozen=True, slots=True)
class Promise:
    session: Session
    node: str
    start: datetime | None  # None: it waits for somebody without a time limit
    spare: Room  # of that node at that time, the promised seat taken: what others may still sit in

    def done_before(self, now: datetime, time_limit: timedelta | None) -> bool:
        return self.start is not None and time_limit is not None and now + time_limit <= self.start


def promise_for(session: Session, rooms: Mapping[str, Room], holding: Sequence[Session], now: datetime) -> Promise | None:
    """None: it fits nowhere even when all have left (a node is drained, say)."""
    offers = [offer for room in rooms.values() if (offer := offer_on(session, room, holding, now)) is not None]
    if not offers:
        return None
    _, _, best = min(offers, key=lambda offer: offer[:2])
    return best


def offer_on(session: Session, room: Room, holding: Sequence[Session], now: datetime) -> tuple[datetime, int, Promise] | None:
    """When the node could take it, how many must leave first, and what that promise looks like."""
    later, start = room.copy(), now
    leaving = sorted((end_of(s, now), s.id, s.seat) for s in holding if s.seat is not None and s.seat.node == room.node.name)
    for gone in range(len(leaving) + 1):
        if gone:
            start, _, seat = leaving[gone - 1]
            later.give_back(seat)
        answer = fit(session.request, later)
        if isinstance(answer, Seat):
            later.take(answer)
            known = None if start == NEVER.replace(tzinfo=now.tzinfo) else start
            return start, gone, Promise(session, room.node.name, known, later)
    return None


def end_of(session: Session, now: datetime) -> datetime:
    """When it must have left; one past its limit is about to."""
    end = session.expected_end
    return max(end, now) if end is not None else NEVER.replace(tzinfo=now.tzinfo)
