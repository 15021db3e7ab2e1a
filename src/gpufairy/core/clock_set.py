"""The machine's clock, set while no server ran: what runs has run no longer for that, so its times are moved by as much."""
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.core.session import Session

MOST_DRIFT = timedelta(minutes=1)  # so much a clock goes wrong by itself, or is put right bit by bit: nothing is moved for that


@dataclass(frozen=True, slots=True)
class ClockMark:
    """The clock on the wall beside the one that nobody sets."""

    wall: datetime
    up_s: float  # since the machine's start
    boot_id: str  # which start of which machine that was


def set_by(before: ClockMark | None, now: ClockMark) -> timedelta | None:
    """By how much the wall clock was set between the two. None: not worth a word; or nobody knows, for the machine was started anew."""
    if before is None or not before.boot_id or before.boot_id != now.boot_id:
        return None
    by = now.wall - before.wall - timedelta(seconds=now.up_s - before.up_s)
    return by if abs(by) > MOST_DRIFT else None


def moved(session: Session, by: timedelta) -> Session:
    """All of its times but that of its submission, which is written once."""
    names = ("since", "placed_at", "started_at", "idle_since", "kept_until")
    times = {name: at + by for name in names if (at := getattr(session, name)) is not None}
    return replace(session, **times, revision=session.revision + 1)
