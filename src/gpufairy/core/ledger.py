"""Ledger: who held what, for how long. Recent use fades with a half-life, so yesterday's flood is forgiven.

GPU-seconds here are charged ones (see turn.charge_parts): a session that blocks a node's CPUs pays for the GPUs it blocks.
A start is charged for at least the entry penalty: of sessions that end at once there would else be no end.
"""
import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.session import Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.core.steps import Change

TEAM = "team:"  # before a team's name, where teams and owners are kept side by side: no user's name has a colon
ENTRY_PENALTY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Fading:
    """How use is charged, and forgiven."""

    half_life: timedelta
    entry_penalty: timedelta = ENTRY_PENALTY  # a start is charged for at least so long


@dataclass(frozen=True, slots=True)
class Hold:
    """One stretch of time for which a session held a seat."""

    session: Session  # its id, attempt, owner and team are written down
    seat: Seat
    since: datetime
    until: datetime
    goes_on: bool = False  # with another seat: it is not over, so nothing is charged for its start yet

    @property
    def seconds(self) -> float:
        return max(0.0, (self.until - self.since).total_seconds())


@dataclass(frozen=True, slots=True)
class Usage:
    """What an owner or a team used of late: charged GPU-seconds, each halved for every half-life it lies back."""

    gpu_seconds: float
    as_of: datetime


def hold_ended(change: Change) -> Hold | None:
    """The hold that this change closes, if it frees a seat, or gives another in its place."""
    before, after = change.before, change.after
    if not before.holds_gpus or before.seat is None or before.placed_at is None:
        return None
    if not after.holds_gpus:
        return Hold(before, before.seat, before.placed_at, after.since)
    if after.seat == before.seat:
        return None
    return Hold(before, before.seat, before.placed_at, max(before.placed_at, after.placed_at or after.since), goes_on=True)


def charged_to(session: Session) -> tuple[str, ...]:
    """In whose usage its seat is counted: its owner's, and its team's."""
    return (session.owner,) if session.team is None else (session.owner, TEAM + session.team)


def tau_s(half_life: timedelta) -> float:
    """Faded GPU-seconds over this are an average number of GPUs."""
    return half_life.total_seconds() / math.log(2)


def faded(usage: Usage, now: datetime, half_life: timedelta) -> float:
    age_s = max(0.0, (now - usage.as_of).total_seconds())
    return usage.gpu_seconds * math.exp2(-age_s / half_life.total_seconds())


def added(usage: Usage | None, hold: Hold, half_life: timedelta, entry_penalty: timedelta = timedelta()) -> Usage:
    now = hold.until
    old = faded(usage, now, half_life) if usage is not None else 0.0
    if usage is not None and usage.as_of > now:  # a clock that ran back must not un-fade what is written
        now = usage.as_of
    faded_s = faded_hold(hold.seat.charge_parts, hold.since, hold.until, now, half_life)
    short_s = 0.0 if hold.goes_on else short_of(entry_penalty, hold.seat.charge_parts, began_at(hold.session, hold.since), hold.until)
    return Usage(old + faded_s + short_s, now)


def faded_hold(charge_parts: int, since: datetime, until: datetime, now: datetime, half_life: timedelta) -> float:
    """Charged GPU-seconds of [since, until] as they count at `now`: the integral of the fading, in closed form."""
    if until <= since:
        return 0.0
    fade_s = tau_s(half_life)
    from_s, to_s = max(0.0, (now - since).total_seconds()), max(0.0, (now - until).total_seconds())
    return charge_parts / PARTS * fade_s * (math.exp(-to_s / fade_s) - math.exp(-from_s / fade_s))


def began_at(session: Session, held_since: datetime) -> datetime:
    """When it came to hold anything: one that was given another seat while it ran had one before."""
    return min(held_since, session.started_at or held_since)


def short_of(entry_penalty: timedelta, charge_parts: int, since: datetime, until: datetime) -> float:
    """Charged GPU-seconds by which a hold is shorter than what a start is charged at least."""
    held_s = max(0.0, (until - since).total_seconds())
    return charge_parts / PARTS * max(0.0, entry_penalty.total_seconds() - held_s)
