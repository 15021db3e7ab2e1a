"""When folders are walked through: often and quickly, and once a night in full. Pure: the hour is an argument."""
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as TimeOfDay
from hashlib import sha256

LEAST_EVERY = timedelta(minutes=5)  # also between two tries of a walk that failed
OLD_LOOK = timedelta(days=2)  # two nights were missed: what a look says may not be so any more


@dataclass(frozen=True, slots=True)
class WalkPace:
    """`hot`: a folder in which something was written since is looked into each time. A file elsewhere that grows, in a folder where
    nothing is made or removed, is seen by the next walk in full."""

    every: timedelta | None = timedelta(hours=1)  # None: only when somebody asks
    nightly: TimeOfDay | None = TimeOfDay(3)
    hot: timedelta = timedelta(days=3)
    old: timedelta = timedelta(days=180)  # what nobody used for so long is old
    stale: timedelta = timedelta(days=30)  # the same of checkpoints


def is_full_due(last_full: datetime | None, now: datetime, nightly: TimeOfDay | None) -> bool:
    """Never yet; or not since its hour. `now` is in the zone of the machine. With no hour: once a day."""
    if last_full is None or last_full > now:  # one of days to come was before the clock was set back
        return True
    if nightly is None:
        return now - last_full >= timedelta(days=1)
    hour = now.replace(hour=nightly.hour, minute=nightly.minute, second=0, microsecond=0)
    return last_full < (hour if hour <= now else hour - timedelta(days=1))


def is_due(last: datetime | None, now: datetime, pace: WalkPace, *, full: bool) -> bool:
    """`last`: the last try, whether it went well or not. `full`: one in full is due, which waits for nothing but its hour."""
    if pace.every is None:
        return False
    wait = min(LEAST_EVERY, pace.every) if full else pace.every
    return last is None or last > now or now - last >= wait


def spread(name: str, over: timedelta) -> timedelta:
    """By how much later one of many hosts begins, always the same for the same name: not all of them in the same second."""
    return over * (int.from_bytes(sha256(name.encode()).digest()[:4], "big") / 2**32)
