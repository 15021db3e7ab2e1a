"""The calendar of bookings as text: a row for each GPU, a letter for each booking; a character is half an hour, or in a week four hours."""
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from string import ascii_lowercase, ascii_uppercase

from gpufairy.cli.when import here
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe, time_of

LETTERS = ascii_uppercase + ascii_lowercase
FREE, MANY, PAST = "·", "#", " "
DAY_CELL, WEEK_CELL = timedelta(minutes=30), timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Span:
    """What is drawn, and how much of it is one character."""

    start: datetime
    end: datetime
    cell: timedelta
    now: datetime

    @property
    def cells(self) -> list[datetime]:
        """By real time: the day on which clocks change has an hour more or less."""
        count = -(-(self.end - self.start) // self.cell)
        return [self.start + number * self.cell for number in range(count)]


def span_of(day: datetime, days: int, now: datetime) -> Span:
    """`day`: its beginning where the user is, without a zone."""
    ends = (day + timedelta(days=days)).astimezone(UTC)
    return Span(day.astimezone(UTC), ends, DAY_CELL if days == 1 else WEEK_CELL, now)


def drawn(bookings: Sequence[Record], gpus: Sequence[Record], span: Span) -> list[str]:
    shown = [one for one in bookings if touches(one, span.start, span.end)]
    letters = {one["id"]: LETTERS[number] if number < len(LETTERS) else MANY for number, one in enumerate(shown)}
    rows = [(name_of(gpu), row(gpu["uuid"], shown, letters, span)) for gpu in with_lost(gpus, shown)]
    wide = max((len(name) for name, _ in rows), default=0)
    lines = [*(("", line) for line in head(span)), *rows]
    return [*(f"{name:{wide}}  {cells}".rstrip() for name, cells in lines), *legend(shown, letters)]


def with_lost(gpus: Sequence[Record], bookings: Sequence[Record]) -> list[Record]:
    """Those that are there, and those that are booked and no longer there."""
    there = {gpu["uuid"] for gpu in gpus}
    lost = {gpu["uuid"]: gpu for one in bookings for gpu in one["gpus"] if gpu["uuid"] not in there}
    return [*gpus, *lost.values()]


def name_of(gpu: Record) -> str:
    return safe(gpu["uuid"]) if gpu.get("node") is None else f"{safe(gpu['node'])} GPU {safe(gpu.get('index'))} {kind_words(gpu)}"


def kind_words(gpu: Record) -> str:
    return safe(gpu.get("kind") or "") + (" simulated" if gpu.get("simulated") else "")


def row(uuid: str, bookings: Sequence[Record], letters: dict[str, str], span: Span) -> str:
    its_own = [one for one in bookings if any(gpu["uuid"] == uuid for gpu in one["gpus"])]
    return "".join(cell(start, start + span.cell, its_own, letters, span.now) for start in span.cells)


def cell(start: datetime, end: datetime, bookings: Sequence[Record], letters: dict[str, str], now: datetime) -> str:
    found = [letters[one["id"]] for one in bookings if touches(one, start, end)]
    if not found:
        return PAST if end <= now else FREE
    return found[0] if len(found) == 1 else MANY


def touches(booking: Record, start: datetime, end: datetime) -> bool:
    begins, ends = time_of(booking["from"]), time_of(booking["until"])
    return begins is not None and ends is not None and begins < end and start < ends


def head(span: Span) -> list[str]:
    """The date first; then hours over a day, days over a week."""
    if span.cell == WEEK_CELL:
        days = f"{here(span.start):%d %B} to {here(span.end - span.cell):%d %B %Y}, {span.start.astimezone():%Z}"
        return [days, labels(span, lambda at: f"{at:%a}", 6)]
    return [f"{span.start.astimezone():%A, %d %B %Y, %Z}", labels(span, lambda at: f"{at:%H}", 4)]


def labels(span: Span, words: Callable[[datetime], str], every: int) -> str:
    return "".join(f"{words(here(at)):{every}}"[:every] for at in span.cells[::every]).rstrip()


def legend(bookings: Sequence[Record], letters: dict[str, str]) -> list[str]:
    if not bookings:
        return ["", "Nothing is booked then."]
    return ["", *(f"{letters[one['id']]}  {legend_line(one)}" for one in bookings)]


def legend_line(one: Record) -> str:
    when = span_words(one)
    who = ", ".join(map(safe, one["who"]))
    trouble = f"; {safe(one['trouble'])}" if one.get("trouble") else ""
    return f"{safe(one['title'])} ({safe(one['id'])}), {when}, for {who}, by {safe(one['made_by'])}{trouble}"


def span_words(one: Record) -> str:
    """In the user's zone: `Fri 20 Nov 14:00-16:00`, with the second day where it is another."""
    begins, ends = time_of(one["from"]), time_of(one["until"])
    if begins is None or ends is None:
        return ""
    start, end = here(begins), here(ends)
    return f"{start:%a %d %b %H:%M}-{end:%H:%M}" if start.date() == end.date() else f"{start:%a %d %b %H:%M} to {end:%a %d %b %H:%M}"
