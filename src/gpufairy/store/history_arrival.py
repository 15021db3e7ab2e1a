"""Arrival: a report as it comes to the history."""
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.series import Point


@dataclass(frozen=True, slots=True)
class Arrival:
    node: str
    at: datetime
    sent_at: datetime  # by the clock of its host
    arrived_at: datetime
    seconds: float  # what it stands for
    points: tuple[Point, ...]
