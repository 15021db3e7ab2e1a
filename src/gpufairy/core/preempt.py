"""Preempt: whom to send back into the queue for somebody who is entitled to the place. Least work lost first, and never in a circle."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from gpufairy.core.room import Room
from gpufairy.core.session import Session

if TYPE_CHECKING:
    from gpufairy.core.cluster import Cluster


class Preempt(StrEnum):
    OFF = "off"
    MARKED = "marked"  # sessions that were submitted as preemptible
    LOWER = "lower"  # those, and sessions of a lower priority


@dataclass(frozen=True, slots=True)
class Eviction:
    """One session that is to go back into the queue, and for whom."""

    victim: Session
    for_session: Session
    why: str


def evictions(cluster: "Cluster", heads: Sequence[Session], rooms: Mapping[str, Room], now: datetime) -> tuple[Eviction, ...]:
    """For those in `heads`, who do not fit: whom to ask to leave. `rooms`: with what this pass has placed."""
    return ()
