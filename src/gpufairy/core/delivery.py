"""Delivery: how often a channel is written to, and when it is tried again. Pure; chance is an argument."""
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

FIRST_WAIT = timedelta(seconds=5)
LONGEST_WAIT = timedelta(minutes=15)
GIVE_UP_AFTER = timedelta(hours=24)  # nobody wants to be told today what was wrong yesterday
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pace:
    """Of one channel."""

    sent: tuple[datetime, ...] = ()  # letters of the last hour
    failures: int = 0  # in a row
    not_before: datetime | None = None


def may_send(pace: Pace, now: datetime, most_an_hour: int) -> bool:
    if pace.not_before is not None and now < pace.not_before:
        return False
    return sum(now - at < HOUR for at in pace.sent) < most_an_hour


def delivered(pace: Pace, now: datetime, gap: timedelta) -> Pace:
    """`gap`: what comes sooner than this goes together."""
    return Pace((*(at for at in pace.sent if now - at < HOUR), now), 0, now + gap)


def failed(pace: Pace, now: datetime, chance: float) -> Pace:
    """`chance`: 0 to 1, so that not all who failed together come back together."""
    wait = min(FIRST_WAIT * 2 ** min(pace.failures, 12), LONGEST_WAIT)
    return replace(pace, failures=pace.failures + 1, not_before=now + wait * (0.5 + chance / 2))
