"""Booking: GPUs that are for certain people for a certain time. The queue works around it; what is not used is lent.

The GPUs are named when the booking is made, so that two bookings can be told to overlap, and a calendar can be drawn.
"""
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

OPEN: Mapping[str, str] = {}  # no GPU is closed to them


@dataclass(frozen=True, slots=True)
class Booking:
    id: str
    title: str
    made_by: str
    who: tuple[str, ...]  # user:NAME, team:NAME
    gpus: tuple[str, ...]  # UUIDs
    start: datetime
    end: datetime
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Calendar:
    """All bookings that are not over."""

    bookings: tuple[Booking, ...] = ()

    def closed_to(self, owner: str, team: str | None, stay: timedelta | None, now: datetime) -> Mapping[str, str]:
        """GPUs, by UUID, on which a session of theirs that stays so long (None: nobody knows) may not start now, each with why."""
        return OPEN

    def concerns(self, owner: str, team: str | None) -> bool:
        """Whether any booking is theirs: then what is closed to others may be open to them."""
        return False

    def without(self, booking_id: str) -> Self:
        return type(self)(tuple(one for one in self.bookings if one.id != booking_id))
