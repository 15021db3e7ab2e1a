"""Ledger: who held what, for how long. Recent use fades with a half-life, so yesterday's flood is forgiven.

GPU-seconds here are charged ones (see turn.charge_parts): a session that blocks a node's CPUs pays for the GPUs it blocks.
"""
import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.session import Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.core.steps import Change


@dataclass(frozen=True, slots=True)
class Hold:
    """One stretch of time for which a session held a seat."""

    session: Session  # its id, attempt, owner and team are written down
    seat: Seat
    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        return max(0.0, (self.until - self.since).total_seconds())


@dataclass(frozen=True, slots=True)
class Usage:
    """What an owner used of late: charged GPU-seconds, each halved for every half-life it lies back."""

    gpu_seconds: float
    as_of: datetime


def hold_ended(change: Change) -> Hold | None:
    """The hold that this change closes, if it frees a seat."""
    before, after = change.before, change.after
    if not before.holds_gpus or after.holds_gpus or before.seat is None or before.placed_at is None:
        return None
    return Hold(before, before.seat, before.placed_at, after.since)


def faded(usage: Usage, now: datetime, half_life: timedelta) -> float:
    age_s = max(0.0, (now - usage.as_of).total_seconds())
    return usage.gpu_seconds * math.exp2(-age_s / half_life.total_seconds())


def added(usage: Usage | None, hold: Hold, half_life: timedelta) -> Usage:
    now = hold.until
    old = faded(usage, now, half_life) if usage is not None else 0.0
    if usage is not None and usage.as_of > now:  # a clock that ran back must not un-fade what is written
        now = usage.as_of
    return Usage(old + faded_hold(hold.seat.charge_parts, hold.since, hold.until, now, half_life), now)


def faded_hold(charge_parts: int, since: datetime, until: datetime, now: datetime, half_life: timedelta) -> float:
    """Charged GPU-seconds of [since, until] as they count at `now`: the integral of the fading, in closed form."""
    if until <= since:
        return 0.0
    tau_s = half_life.total_seconds() / math.log(2)
    from_s, to_s = max(0.0, (now - since).total_seconds()), max(0.0, (now - until).total_seconds())
    return charge_parts / PARTS * tau_s * (math.exp(-to_s / tau_s) - math.exp(-from_s / tau_s))
