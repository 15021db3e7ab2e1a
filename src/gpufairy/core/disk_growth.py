"""How disk use grows: from what was kept of each day, one sum a day. What was not kept is not known, and never taken for nothing."""
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

KEPT_DAYS = 400  # a year and a month: to compare this month with the same of last year
LATE = 3  # days: what was kept a little before the day that is asked about stands for it; the server may have been away


@dataclass(frozen=True, slots=True)
class DaySum:
    """What somebody had somewhere at the end of a day, or when it was looked at last on that day."""

    day: date
    place: str
    who: str  # a user; ALL: everybody's
    bytes: int
    inodes: int


ALL = "*"


@dataclass(frozen=True, slots=True)
class Growth:
    day_bytes: int | None = None
    week_bytes: int | None = None

    @property
    def known(self) -> bool:
        return self.week_bytes is not None or self.day_bytes is not None


def growth(days: Iterable[DaySum], who: str, now: Mapping[str, int], today: date) -> Growth:
    """`days`: theirs, and everybody's, which say where was looked on that day. `now`: bytes by place.

    A place where nobody looked then counts for nothing in the comparison: what is new to us has not grown.
    """
    looked: dict[date, set[str]] = defaultdict(set)
    theirs: dict[date, dict[str, int]] = defaultdict(dict)
    for one in days:
        looked[one.day].add(one.place)
        if one.who == who:
            theirs[one.day][one.place] = one.bytes
    return Growth(*(since(looked, theirs, now, today, back) for back in (1, 7)))


def since(
    looked: Mapping[date, set[str]], theirs: Mapping[date, Mapping[str, int]], now: Mapping[str, int], today: date, back: int
) -> int | None:
    """Scaled to so many days where the nearest that was kept lies a little further back."""
    for late in range(LATE):
        day = today - timedelta(days=back + late)
        places = looked.get(day, set()) & set(now)
        if places:
            then = theirs.get(day, {})
            return round(sum(now[place] - then.get(place, 0) for place in places) * back / (back + late))
    return None
