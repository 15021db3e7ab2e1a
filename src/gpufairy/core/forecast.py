"""Forecast: when the waiting could start, if those who hold seats stay until their time is up, and nobody delays those ahead.
Never a guess: where it hangs on somebody without a time limit, it is None.
"""
from collections.abc import Mapping, Sequence
from datetime import datetime

from gpufairy.core.room import Room
from gpufairy.core.session import Request, Session
from gpufairy.core.timeline import NEVER, Timeline, best_offer, timelines


def forecast(rooms: Mapping[str, Room], holding: Sequence[Session], order: Sequence[Session], now: datetime) -> dict[str, datetime | None]:
    """Starts of the sessions in `order`, each given its seat in turn."""
    lines = timelines(rooms, holding, now)
    return {session.id: start_of(session.request, lines) for session in order}


def start_of(request: Request, lines: Sequence[Timeline]) -> datetime | None:
    """When it could start; its seat is then taken for those who come after."""
    best = best_offer(request, lines)
    if best is None:
        return None
    offer, line = best
    line.reserve(offer, request.time_limit)
    return None if offer.when == NEVER else offer.when
