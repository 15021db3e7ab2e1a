"""Times as people write them: `14:00`, `tomorrow 14:00`, `2026-11-20 14:00`, `in 2h`. Without a zone they are the user's own."""
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from gpufairy.core.amounts import parse_duration, shown
from gpufairy.core.errors import BadInput

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EXAMPLES = 'Write it like "2026-11-20 14:00", "tomorrow 14:00", "fri 9:30", 14:00, "in 2h" or now.'
LEAST_LETTERS = 3  # of a day of the week
_CLOCK = re.compile(r"([01]?[0-9]|2[0-4])(?::([0-5][0-9]))?")


def parse_when(text: str, now: datetime, what: str, zone: tzinfo | None = None) -> datetime:
    """In UTC. A time of day alone is the next one, a day alone its beginning. `zone=None`: as this machine has it."""
    words = text.strip().lower().split()
    if words == ["now"]:
        return now.astimezone(UTC)
    if words[:1] == ["in"] or text.strip().startswith("+"):
        return now.astimezone(UTC) + parse_duration("".join(words).removeprefix("in").removeprefix("+"), what)
    try:
        told = datetime.fromisoformat(text.strip()) if "-" in text else by_words(words, here(now, zone))
        return told.astimezone(UTC) if told.tzinfo is not None else to_utc(told, text, what, zone)
    except (ValueError, OverflowError):
        raise BadInput(f"{what}: {shown(text)} is no time", EXAMPLES) from None


def here(at: datetime, zone: tzinfo | None = None) -> datetime:
    """By the clock on the user's wall, which has no zone."""
    return at.astimezone(zone).replace(tzinfo=None)


def to_utc(wall: datetime, text: str, what: str, zone: tzinfo | None) -> datetime:
    found = (wall if zone is None else wall.replace(tzinfo=zone)).astimezone(UTC)
    if here(found, zone) != wall:
        raise BadInput(f"{what}: there is no {shown(text)} here: clocks are put forward then", "Give an hour more or less.")
    return found


def by_words(words: list[str], now: datetime) -> datetime:
    """Raises ValueError for what is no time."""
    if len(words) == 1 and ":" in words[0]:
        today = at_clock(now.date(), words[0])
        return today if today > now else at_clock(now.date() + timedelta(days=1), words[0])
    day, clock = words if len(words) == 2 else (*words, "0")
    return at_clock(day_of(day, now.date()), clock)


def day_of(word: str, today: date) -> date:
    """Of a day of the week the next one: today's name is a week from now."""
    if word in ("today", "tomorrow"):
        return today + timedelta(days=int(word == "tomorrow"))
    number = next((n for n, day in enumerate(DAYS) if day.startswith(word) and len(word) >= LEAST_LETTERS), None)
    if number is None:
        raise ValueError(word)
    return today + timedelta(days=(number - today.weekday()) % 7 or 7)


def at_clock(day: date, clock: str) -> datetime:
    """24:00 is the end of the day."""
    match = _CLOCK.fullmatch(clock)
    if match is None or (match[1] == "24" and match[2] not in (None, "00")):
        raise ValueError(clock)
    hour, minute = int(match[1]), int(match[2] or 0)
    return datetime.combine(day + timedelta(days=hour // 24), time(hour % 24, minute))
