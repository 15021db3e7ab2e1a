"""How long what is over is kept, when the nightly clean-up is due, and which old tools nobody needs any more. Pure: times are arguments."""
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as TimeOfDay

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.session import Session

DAYS = {"d": 1, "w": 7, "y": 365}
SHORTEST = timedelta(days=1)  # what is forgotten sooner was never there for whoever looks the next morning
LONGEST = timedelta(days=100 * 365)
TOOLS_RESTED = timedelta(days=7)  # an upgrade that is taken back within a week finds them again
SLACK = timedelta(hours=1)  # what is noted as used is noted once a minute, by a clock that may be set
_KEEP = re.compile(r"([0-9]{1,6})([dwy])")


@dataclass(frozen=True, slots=True)
class Keeps:
    """None: for ever."""

    sessions: timedelta | None = timedelta(days=400)
    events: timedelta | None = timedelta(days=400)
    audit: timedelta | None = timedelta(days=730)
    bookings: timedelta | None = timedelta(days=400)
    tokens: timedelta | None = timedelta(days=90)


def parse_keep(text: str, what: str) -> timedelta | None:
    """`400d`, `10w`, `2y`, a year being 365 days; `forever`: None."""
    compact = text.strip().lower().replace(" ", "")
    if compact == "forever":
        return None
    match = _KEEP.fullmatch(compact)
    time = None if match is None else timedelta(days=int(match[1]) * DAYS[match[2]])
    if time is None or not SHORTEST <= time <= LONGEST:
        raise BadInput(f"{what}: {shown(text)} is no time between 1d and 100y", "Write it as 400d, 10w or 2y; or forever.")
    return time


def before(now: datetime, keep: timedelta | None) -> datetime | None:
    """What was over by then may go. None: nothing may."""
    return None if keep is None else now - keep


def is_due(last: datetime | None, started: datetime, now: datetime, nightly: TimeOfDay | None) -> bool:
    """Once after each of its hours; of a machine that was off at that hour, when it is back. `now` is in the zone of the machine."""
    if nightly is None:
        return False
    hour = now.replace(hour=nightly.hour, minute=nightly.minute, second=0, microsecond=0)
    begun = hour if hour <= now else hour - timedelta(days=1)
    return begun > (last or started)


def goes(at: datetime, by_person: bool, events_before: datetime | None, audit_before: datetime | None) -> bool:
    limit = audit_before if by_person else events_before
    return limit is not None and at < limit


def unused_tools(last_used: Mapping[str, datetime], current: Iterable[str], holding: Iterable[Session], now: datetime) -> list[str]:
    """Folders that no running session can have been started with. `last_used`: until when each was the one that new sessions got."""
    oldest = min((session.placed_at or session.submitted_at for session in holding), default=now) - SLACK
    in_use = set(current)
    return sorted(name for name, until in last_used.items() if name not in in_use and until < oldest and now - until > TOOLS_RESTED)
