"""Forecast: when the waiting could start, if those who hold seats stay until their time is up. A first estimate, and never a guess:
where it hangs on somebody without a time limit, it is None.
"""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from gpufairy.core.cluster import Cluster
from gpufairy.core.fit import fit
from gpufairy.core.promise import NEVER, end_of
from gpufairy.core.room import Room
from gpufairy.core.session import Seat, Session


@dataclass(slots=True)
class Timeline:
    """One node's future: its room now, and who leaves or comes when."""

    room: Room
    changes: list[tuple[datetime, bool, Seat]]  # (when, comes, seat); leaving sorts before coming

    def earliest(self, session: Session, now: datetime) -> tuple[datetime, Seat] | None:
        """The first moment it fits. What comes later is not looked at: an estimate, on the early side."""
        room = self.room.copy()
        answer, at = fit(session.request, room), now
        for when, together in groupby(sorted(self.changes, key=lambda change: change[:2]), key=lambda change: change[0]):
            if isinstance(answer, Seat):
                break
            for _, comes, seat in together:
                (room.take if comes else room.give_back)(seat)
            answer, at = fit(session.request, room), when
        return (at, answer) if isinstance(answer, Seat) else None


def forecast(cluster: Cluster, order: Sequence[Session], now: datetime) -> dict[str, datetime | None]:
    """Starts of the sessions in `order`, each given its seat in turn."""
    never = NEVER.replace(tzinfo=now.tzinfo)
    timelines = {name: Timeline(room, []) for name, room in cluster.rooms().items()}
    for holder in cluster.holding:
        if holder.seat is not None and holder.seat.node in timelines:
            timelines[holder.seat.node].changes.append((end_of(holder, now), False, holder.seat))
    starts: dict[str, datetime | None] = {}
    for session in order:
        offers = [(offer[0], name, offer[1]) for name, line in timelines.items() if (offer := line.earliest(session, now)) is not None]
        if not offers:
            starts[session.id] = None
            continue
        at, name, seat = min(offers, key=lambda offer: offer[:2])
        starts[session.id] = None if at == never else at
        timelines[name].changes.append((at, True, seat))
        if session.request.time_limit is not None and at != never:
            timelines[name].changes.append((at + session.request.time_limit, False, seat))
    return starts
