"""Values of the API in words for a terminal. Everything shown that strangers wrote passes through `safe`."""
import json
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.client.protocol import Record
from gpufairy.client.values import safe, time_of
from gpufairy.core.amounts import show_duration


@dataclass(frozen=True, slots=True)
class Mark:
    """A state as people see it: a dot, a word, and a colour for those who see colours."""

    dot: str
    word: str
    style: str


MINUTE = timedelta(minutes=1)
MARKS = {
    "PENDING": Mark("○", "PENDING", "yellow"),
    "STARTING": Mark("◐", "STARTING", "blue"),
    "RUNNING": Mark("●", "RUNNING", "green"),
    "STOPPING": Mark("◐", "STOPPING", "blue"),
    "LOST": Mark("◆", "LOST", "red"),
}
BAD_OUTCOMES = ("failed", "lost")


def mark_of(session: Record) -> Mark:
    state = safe(session.get("state"))
    if state != "ENDED":
        return MARKS.get(state, Mark("·", state, ""))
    outcome = safe(session.get("outcome")) or "ended"
    return Mark("◆", outcome, "red") if outcome in BAD_OUTCOMES else Mark("◇", outcome, "bright_black")


def print_json(value: object) -> None:
    """One document on one line. ASCII, so that no control character passes, whatever the terminal takes for one."""
    print(json.dumps(value), flush=True)


def write_raw(data: bytes) -> int:
    """Bytes of a job as they are, at once; how many went out."""
    # Past Python's own buffer: it is locked while a thread writes, and that would hang an exit by Ctrl-C.
    return os.write(sys.stdout.fileno(), data)


def age_of(text: object, now: datetime) -> str:
    time = time_of(text)
    return "" if time is None else show_duration(now - time)


def clock_of(text: object) -> str:
    """The time of day here and now, with the date if it is another day's."""
    time = time_of(text)
    if time is None:
        return ""
    here = time.astimezone()
    return here.strftime("%H:%M" if here.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M")


def forecast_words(session: Record, now: datetime) -> str:
    start = time_of(session.get("forecast_start"))
    if start is None:
        return ""
    ahead = max(timedelta(), start - now)
    told = ahead if ahead < MINUTE else round(ahead / MINUTE) * MINUTE  # an estimate is not told to the second
    return f"starts about {range_words(session)}, in {show_duration(told)}"


def range_words(session: Record) -> str:
    """`14:20 (13:50 to 15:10)`; `14:20 (13:50 or later)` where nobody can tell how late it may get."""
    start, low, high = (clock_of(session.get(name)) for name in ("forecast_start", "forecast_low", "forecast_high"))
    if not start or (low, high) == (start, start) or not low:
        return start
    return f"{start} ({low} to {high})" if high else f"{start} ({low} or later)"


def waiting_words(session: Record, now: datetime) -> str:
    """`brave-otter PENDING: place 3, gpu01 has 0 GPUs free, starts about 14:20 (14:05 to 14:50), in 12 min`."""
    place = session.get("place")
    parts = [f"place {place}" if place is not None else "", safe(session.get("why")), forecast_words(session, now)]
    said = ", ".join(part for part in parts if part)
    return f"{safe(session.get('name'))} {safe(session.get('state'))}" + (f": {said}" if said else "")


def node_of(session: Record) -> str:
    return safe((session.get("seat") or {}).get("node"))


def share_notes(session: Record) -> list[str]:
    """What somebody with a part of a GPU should know of those who have the rest."""
    gpus = (session.get("seat") or {}).get("gpus") or []
    return list(dict.fromkeys(safe(gpu["note"]) for gpu in gpus if gpu.get("note")))


def is_simulated(session: Record) -> bool:
    return any(gpu.get("simulated") for gpu in (session.get("seat") or {}).get("gpus") or [])


def share_words(share: object) -> str:
    return "" if share is None else f"{float(str(share)):g}"
