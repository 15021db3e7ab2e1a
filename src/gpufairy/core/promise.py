"""Promise: the earliest seat the first in line could have, if those who hold seats leave when their time is up."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.fit import fit
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.timeline import NEVER, SHORT, best_offer, timelines


@dataclass(frozen=True, slots=True)
class Promise:
    session: Session
    node: str
    start: datetime | None  # None: it waits for somebody without a time limit
    spare: Room  # of that node at that time, the promised seat taken: what others may still sit in

    def lets_pass(self, request: Request, now: datetime) -> bool:
        """Whether it may sit in what is promised until then."""
        if request.time_limit is None:
            return False
        return request.time_limit <= SHORT if self.start is None else now + request.time_limit <= self.start


def promise_for(session: Session, rooms: Mapping[str, Room], holding: Sequence[Session], now: datetime) -> Promise | None:
    """None: it fits nowhere even when all have left (a node is drained, say)."""
    hopeful = {name: room for name, room in rooms.items() if isinstance(fit(session.request, Room.empty(room.node)), Seat)}
    best = best_offer(session.request, timelines(hopeful, holding, now))
    if best is None:
        return None
    offer, line = best
    line.reserve(offer, None)
    return Promise(session, offer.seat.node, None if offer.when == NEVER else offer.when, line.moments[offer.position].room)
