"""When the next backup is due, and which of those that are there may go. Pure: times are arguments, in the zone of the machine."""
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as TimeOfDay

FIRST_AFTER = timedelta(hours=1)  # of a server that has none yet: a machine that is off at night would never have one
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Of each of so many days, weeks and months that have one, the newest."""

    daily: int = 7
    weekly: int = 4
    monthly: int = 6


def next_backup(last: datetime | None, started: datetime, every: timedelta, at: TimeOfDay) -> datetime:
    """`every` of a day or more goes by the hour `at`; a shorter one by the last backup alone."""
    if last is None:
        return min(started + FIRST_AFTER, first_hour(started, at))
    target = last + every
    if every < DAY:
        return target
    on_the_day = target.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    # One made by hand shortly before the hour shall not let a whole day pass; nor shall it be followed at once by another.
    return on_the_day if on_the_day - last >= DAY / 4 else on_the_day + DAY


def first_hour(after: datetime, at: TimeOfDay) -> datetime:
    hour = after.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return hour if hour > after else hour + DAY


def to_keep(made: Iterable[datetime], rule: KeepRule) -> frozenset[datetime]:
    """The newest one always, whatever the rule says: an empty folder is no backup."""
    newest_first = sorted(set(made), reverse=True)
    return frozenset(
        [
            *newest_first[:1],
            *newest_of_each(newest_first, lambda at: at.date(), rule.daily),
            *newest_of_each(newest_first, lambda at: at.isocalendar()[:2], rule.weekly),
            *newest_of_each(newest_first, lambda at: (at.year, at.month), rule.monthly),
        ]
    )


def newest_of_each(newest_first: Iterable[datetime], stretch_of: Callable[[datetime], Hashable], most: int) -> list[datetime]:
    newest: dict[Hashable, datetime] = {}
    for at in newest_first:
        newest.setdefault(stretch_of(at), at)
    return list(newest.values())[:most]
