"""Quota: what a user or team may hold at most, and what of it is used. Who is over waits, and is told by which quota.

Preemptible sessions are under no quota of GPUs: what nobody entitled uses they may borrow, and they leave when it is wanted.
"""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.session import Seat, Session

ANY_KIND = "*"


@dataclass(frozen=True, slots=True)
class Quota:
    of: str  # user:NAME, team:NAME; user:* and team:* are for each who has none of their own
    gpu_kind: str = ANY_KIND
    gpu_parts: int | None = None  # held at once; None: no bound
    gpu_hours_week: float | None = None  # held in the last seven days
    sessions: int | None = None  # with a seat at once


@dataclass(frozen=True, slots=True)
class WeekUse:
    """GPU-time held in the last seven days by seats that were given back."""


class Allowances:
    """What is left of every quota in one planning pass. Tell it who was placed."""

    def __init__(self, quotas: Sequence[Quota], holding: Iterable[Session], week: WeekUse, now: datetime) -> None:
        self._quotas = quotas

    def refusal(self, session: Session, seat: Seat) -> str | None:
        """By which quota it may not have this seat, in words."""
        return None

    def concerns(self, owner: str, team: str | None) -> bool:
        """Whether any quota is about them: then one owner may be refused what another gets."""
        return False

    def placed(self, session: Session, seat: Seat, sign: int = 1) -> None:
        """It has the seat; with -1: it has not after all."""
