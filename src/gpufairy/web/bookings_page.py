"""Bookings as a calendar: a row for each GPU, a day or a week wide, and the list of what is booked."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.booking import UNUSED_AFTER, Booking, Calendar
from gpufairy.core.booking_repair import Place, troubles
from gpufairy.web.asked import asked
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import clock, day_words, here, length
from gpufairy.web.words import UNBROKEN, Mark, hue_of

DAYS = {"day": 1, "week": 7}
MOST_LINES = 64  # of more GPUs only those are drawn of which something is booked
MOST_BOOKED_LINES = 200
HOURS_MARKED = 3  # in a day: every so many hours


@dataclass(frozen=True, slots=True)
class Span:
    """What is drawn: from one midnight of the reader's to another."""

    day: date
    days: int
    start: datetime
    end: datetime

    def place(self, at: datetime) -> float:
        """Hundredths from the left edge, within the drawing."""
        return 100 * min(1.0, max(0.0, (at - self.start) / (self.end - self.start)))

    def query(self, day: date, days: int | None = None) -> str:
        span = next(name for name, count in DAYS.items() if count == (days or self.days))
        return f"/bookings?day={day.isoformat()}&span={span}"


@dataclass(frozen=True, slots=True)
class Slot:
    """A booking on one GPU, in hundredths of the drawing."""

    left: float
    width: float
    hue: str
    label: str
    said: str
    lent: bool


@dataclass(frozen=True, slots=True)
class GpuLine:
    name: str
    kind: str
    simulated: bool
    slots: tuple[Slot, ...]
    said: str


@dataclass(frozen=True, slots=True)
class BookedRow:
    id: str
    title: str
    when: str
    gpus: str
    who: str
    made_by: str
    hue: str
    mark: Mark
    trouble: str
    may_cancel: bool
    runs: bool


@dataclass(frozen=True, slots=True)
class BookingsPage:
    answer: str
    next_step: str
    title: str  # of the calendar: its day or week
    span: Span
    ticks: tuple[tuple[float, str], ...]
    now: float | None  # where now is; None: not within the drawing
    lines: tuple[GpuLine, ...]
    unbooked: int  # GPUs that are not drawn, since nothing of them is booked then
    rows: tuple[BookedRow, ...]
    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    teams: tuple[str, ...]
    rules: tuple[str, ...]
    made: str  # the title of the one that was just made; empty: none was
    today: date

    @property
    def before(self) -> date:
        return self.span.day - timedelta(days=self.span.days) if self.span.day > date(1, 1, 8) else self.span.day

    @property
    def after(self) -> date:
        return self.span.day + timedelta(days=self.span.days) if self.span.day < date(9999, 12, 1) else self.span.day


async def bookings_page(house: House, caller: Caller, span: Span, made: str = "") -> BookingsPage:
    now = house.clock()
    over = await house.bookings.past(span.start, now) if span.start < now else []
    coming, known, calendar = house.bookings.coming(), house.bookings.known(house.nodes), house.bookings.calendar(house.book.holding())
    drawn = [one for one in (*over, *coming) if one.overlaps(span.start, span.end)]
    lines, unbooked = gpu_lines(house, drawn, known, span, now)
    teams = [team.name for team in house.teams.all()] if caller.is_admin else [caller.user.team] if caller.user.team else []
    return BookingsPage(
        *answers(coming, caller, now), title_of(span), span, tuple(ticks(span)),
        span.place(now) if span.start <= now < span.end else None, lines, unbooked,
        tuple(booked_row(house, one, known, calendar, caller) for one in coming),
        tuple(sorted({gpu.kind for node in house.nodes for gpu in node.gpus})), tuple(node.name for node in house.nodes if node.gpus),
        tuple(teams), rules(house, caller), next((one.title for one in coming if one.id == made), ""), here(now).date(),
    )  # fmt: skip


def span_of(day: str, span: str, now: datetime) -> Span:
    """What is no day is today."""
    days = DAYS.get(span, 1)
    try:
        first = date.fromisoformat(day[:10])
        start, end = midnight(first, asked().zone), midnight(first + timedelta(days=days), asked().zone)
    except (ValueError, OverflowError):
        first = here(now).date()
        start, end = midnight(first, asked().zone), midnight(first + timedelta(days=days), asked().zone)
    return Span(first, days, start, end)


def midnight(day: date, zone: tzinfo | None) -> datetime:
    begins = datetime(day.year, day.month, day.day)
    return begins.astimezone() if zone is None else begins.replace(tzinfo=zone)


def answers(coming: Sequence[Booking], caller: Caller, now: datetime) -> tuple[str, str]:
    mine = [one for one in coming if one.is_for(caller.user.name, caller.user.team)]
    lent = _("What nobody of a booking uses for {time} is lent to preemptible sessions, until somebody comes.")
    lent = lent.format(time=length(UNUSED_AFTER))
    if not coming:
        return _("Nothing is booked."), _("Book GPUs for a class or a deadline below. {lent}").format(lent=lent)
    if not mine:
        told = ngettext("{count} booking to come, none for you.", "{count} bookings to come, none for you.", len(coming))
        return told.format(count=len(coming)), lent
    first = mine[0]
    gpus = ngettext("{count} GPU", "{count} GPUs", len(first.gpus)).format(count=len(first.gpus)).replace(" ", UNBROKEN)
    if first.runs(now):
        told = _("{gpus} are booked for you now, until {time}.").format(gpus=gpus, time=clock(first.end, now))
    else:
        told = _("Next for you: {gpus} from {time}.").format(gpus=gpus, time=clock(first.start, now))
    return told, lent


def title_of(span: Span) -> str:
    first = day_words(here(span.start))
    return first if span.days == 1 else _("{first} to {last}").format(first=first, last=day_words(here(span.end - timedelta(hours=1))))


def ticks(span: Span) -> list[tuple[float, str]]:
    """By the reader's clock: the day on which clocks change has an hour more or less."""
    if span.days > 1:
        starts = [midnight(span.day + timedelta(days=number), asked().zone) for number in range(span.days)]
        return [(span.place(at), day_words(here(at))) for at in starts]
    hours = [span.start + timedelta(hours=number) for number in range(26)]
    return [(span.place(at), f"{here(at):%H:%M}") for at in hours if at < span.end and here(at).hour % HOURS_MARKED == 0]


def gpu_lines(
    house: House, drawn: Sequence[Booking], known: Mapping[str, Place], span: Span, now: datetime
) -> tuple[tuple[GpuLine, ...], int]:
    by_gpu: dict[str, list[Booking]] = {}
    for booking in drawn:
        for gpu in booking.gpus:
            by_gpu.setdefault(gpu, []).append(booking)
    there = [(gpu.uuid, node.name, gpu.index, gpu.kind, gpu.simulated) for node in house.nodes for gpu in node.gpus]
    gone = [(uuid, *gone_place(known.get(uuid))) for uuid in by_gpu if uuid not in {one[0] for one in there}]
    every = [*there, *gone]
    shown = every if len(every) <= MOST_LINES else [one for one in every if one[0] in by_gpu][:MOST_BOOKED_LINES]
    calendar = house.bookings.calendar(house.book.holding())
    lines = []
    for uuid, node, index, kind, simulated in shown:
        slots = tuple(slot(booking, uuid, calendar, span, now) for booking in by_gpu.get(uuid, []))
        name = f"{node} GPU{UNBROKEN}{index}"
        said = ". ".join([f"{name}, {kind}", *(one.said for one in slots)]) if slots else _("{gpu}: nothing booked").format(gpu=name)
        lines.append(GpuLine(name, kind, simulated, slots, said))
    return tuple(lines), len(every) - len(shown)


def gone_place(place: Place | None) -> tuple[str, int, str, bool]:
    return (_("gone"), 0, "", False) if place is None else (place.node, place.index, place.kind, place.simulated)


def slot(booking: Booking, uuid: str, calendar: Calendar, span: Span, now: datetime) -> Slot:
    left = span.place(booking.start)
    lent = calendar.is_lent(booking, uuid, now)
    said = _("{title}, {when}, for {who}").format(title=booking.title, when=when_words(booking), who=who_words(booking))
    said = ", ".join((said, _("lent: nobody of it uses it"))) if lent else said
    return Slot(left, span.place(booking.end) - left, hue_of(booking.made_by), booking.title, said, lent)


def booked_row(house: House, booking: Booking, known: Mapping[str, Place], calendar: Calendar, caller: Caller) -> BookedRow:
    now, trouble = house.clock(), troubles(booking, house.nodes, known)
    lent = sum(calendar.is_lent(booking, gpu, now) for gpu in booking.gpus)
    mark = Mark(_("Ahead"), "wait")
    if booking.runs(now):
        mark = Mark(_("Runs, {count} lent").format(count=lent) if lent else _("Runs"), "run")
    return BookedRow(
        booking.id, booking.title, when_words(booking), places_words(booking, known), who_words(booking), booking.made_by,
        hue_of(booking.made_by), mark, "; ".join(trouble.values()), caller.is_admin or caller.user.name == booking.made_by,
        booking.runs(now),
    )  # fmt: skip


def when_words(booking: Booking) -> str:
    start, end = here(booking.start), here(booking.end)
    if start.date() == end.date():
        return f"{day_words(start)} {start:%H:%M}–{end:%H:%M}"
    return f"{day_words(start)} {start:%H:%M} – {day_words(end)} {end:%H:%M}"


def who_words(booking: Booking) -> str:
    return ", ".join(who.removeprefix("user:").replace("team:", _("team") + " ", 1) for who in booking.who)


def places_words(booking: Booking, known: Mapping[str, Place]) -> str:
    """`gpu01 GPU 0, 1`."""
    nodes: dict[str, list[str]] = {}
    for gpu in booking.gpus:
        place = known.get(gpu)
        nodes.setdefault(_("gone") if place is None else place.node, []).append("?" if place is None else str(place.index))
    return "; ".join(f"{node} GPU{UNBROKEN}{', '.join(indices)}" for node, indices in nodes.items())


def rules(house: House, caller: Caller) -> tuple[str, ...]:
    limits = house.bookings.limits
    told = [
        _("Everybody sees what is booked, by whom and for what."),
        _("Nobody of it on a GPU for {time}: preemptible sessions may use it until somebody comes.").format(time=length(UNUSED_AFTER)),
    ]
    if caller.is_admin:
        return tuple(told)
    if not limits.users:
        return (*told, _("Bookings are made by admins here."))
    return (*told, _("You may book {gpus} GPUs at a time, {ahead} ahead, for {longest} at the most.").format(
        gpus=limits.most_gpus, ahead=length(limits.most_ahead), longest=length(limits.longest),
    ))  # fmt: skip
