"""Sentences of core as whoever looks reads them: in their tongue, and with its times by their clock.

Core tells times by UTC, for it does not know who will read them. A day that it leaves out is today.
"""
import re
from datetime import UTC, datetime, tzinfo

from gpufairy.web.asked import asked
from gpufairy.web.sentences import told
from gpufairy.web.times import day_words
from gpufairy.web.words import UNBROKEN

DAY = r"\d{4}-\d{2}-\d{2}|\d{2} [A-Z][a-z]{2}"
CLOCK = r"[0-2]\d:[0-5]\d(?::[0-5]\d)?"
FIRST = rf"(?:(?:(?P<day>{DAY}) )?(?P<clock>{CLOCK})(?P<between>-| to ))?"  # of two
TIMES = re.compile(rf"{FIRST}(?:(?P<last_day>{DAY}) )?(?P<last>{CLOCK}) UTC(?![A-Za-z])")


def told_here(text: str) -> str:
    zone, words = asked().zone, told(text)
    if zone is None or " UTC" not in words:
        return words
    now = datetime.now(UTC)
    return TIMES.sub(lambda found: _here(found, zone, now) or found[0], words)


def _here(found: re.Match[str], zone: tzinfo, now: datetime) -> str | None:
    last = _moment(found["last_day"] or found["day"], found["last"], now)
    first = None if found["clock"] is None else _moment(found["day"], found["clock"], now)
    if last is None or (found["clock"] is not None and first is None):
        return None
    with_day = (found["last_day"] or found["day"]) is not None
    ends = _words(last.astimezone(zone), found["last"], with_day)
    if first is None:
        return ends
    return f"{_words(first.astimezone(zone), found['clock'], found['day'] is not None)}{found['between'].replace(' to ', ' – ')}{ends}"


def _moment(day: str | None, clock: str, now: datetime) -> datetime | None:
    """None: there is no such time, whoever wrote it."""
    form = "%Y-%m-%d" if day is None or day[2:3] != " " else "%Y %d %b"
    written = f"{now:%Y-%m-%d}" if day is None else day if form == "%Y-%m-%d" else f"{now:%Y} {day}"
    try:
        return datetime.strptime(f"{written} {clock}", f"{form} {'%H:%M:%S' if clock.count(':') == 2 else '%H:%M'}").replace(tzinfo=UTC)
    except ValueError:
        return None


def _words(at: datetime, clock: str, with_day: bool) -> str:
    time = f"{at:%H:%M:%S}" if clock.count(":") == 2 else f"{at:%H:%M}"
    return f"{day_words(at)}{UNBROKEN}{time}" if with_day else time
