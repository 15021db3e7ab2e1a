"""What a session used, over time, as panels: one for each thing that is counted. For charts that move, and for those without a script."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gpufairy.control.history import Chronicle
from gpufairy.control.house import House
from gpufairy.core.amounts import show_size
from gpufairy.core.series import Kind, Series, step_for
from gpufairy.core.session import Seat, Session
from gpufairy.web.chart import Chart, line
from gpufairy.web.speech import _
from gpufairy.web.words import UNBROKEN, amount_words, gpus_words

SHORTEST = timedelta(minutes=2)
LOOKS = ("used", "second")  # of the lines of one panel: classes of look.css
Values = Sequence[float | None]


class Span(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    LIFE = "life"


LENGTHS = {Span.HOUR: timedelta(hours=1), Span.DAY: timedelta(days=1), Span.WEEK: timedelta(weeks=1)}


def span_named(text: str) -> Span:
    """From an address that people share: what is no span is the usual one."""
    return Span(text) if text in set(Span) else Span.HOUR


class Unit(StrEnum):
    PERCENT = "percent"
    CPUS = "cpus"
    BYTES = "bytes"
    BYTES_PER_S = "bytes_per_s"


@dataclass(frozen=True, slots=True)
class Panel:
    key: str
    title: str
    unit: Unit
    full: float | None  # what it was given; None: there is no such measure
    now: str  # the newest value that is known, in words
    times: Sequence[datetime]
    lines: tuple[tuple[str, Values], ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Of a session's life: what is drawn, and in steps of how many seconds."""

    since: datetime
    until: datetime
    step_s: int


def stretch(house: House, session: Session, span: Span) -> Stretch:
    """Of one that has ended, the last hour is that before its end."""
    now = house.clock()
    until = session.ended_at or now
    began = min(filter(None, (session.placed_at, session.started_at)), default=session.submitted_at)
    since = max(began, until - LENGTHS[span]) if span in LENGTHS else began
    since = min(since, until - SHORTEST)
    return Stretch(since, until, step_for(since, until, now, house.store.history.keeps))


async def session_panels(house: House, session: Session, shown: Stretch, after: datetime | None = None) -> list[Panel]:
    """`after`: what is older is known already. None of one that never had a seat."""
    if session.seat is None or session.placed_at is None:
        return []
    seat, chronicle, step = session.seat, Chronicle(house), timedelta(seconds=shown.step_s)
    since = shown.since if after is None else min(max(shown.since, after), shown.until - timedelta(seconds=1))
    own = await chronicle.series(Kind.SESSION, session.id, since, shown.until, step=step)
    host = await chronicle.series(Kind.NODE, seat.node, since, shown.until, step=step)
    return [*(gpu_panels(own, seat) if seat.gpus else ()), *cpu_panels(own, seat), *host_panels(host, seat.node)]


def gpu_panels(own: Series, seat: Seat) -> list[Panel]:
    percent, memory = percents(means(own, "gpus_used"), means(own, "gpus_held")), means(own, "gpu_memory_bytes")
    held, memory_bytes = gpus_words(seat.gpu_parts), sum(gpu.memory_bytes for gpu in seat.gpus)
    return [
        Panel("gpu", _("GPU"), Unit.PERCENT, 100.0, of_words(percent, Unit.PERCENT, held), own.times, ((_("used"), percent),)),
        Panel(
            "gpu-memory", _("GPU memory"), Unit.BYTES, float(memory_bytes), of_words(memory, Unit.BYTES, unparted(show_size(memory_bytes))),
            own.times, ((_("used"), memory),),
        ),
    ]  # fmt: skip


def cpu_panels(own: Series, seat: Seat) -> list[Panel]:
    cpus, memory, given = means(own, "cpus"), means(own, "memory_bytes"), seat.cpus_milli / 1000
    cpus_now = of_words(cpus, Unit.CPUS, amount_words(given, "CPU"))
    memory_now = of_words(memory, Unit.BYTES, unparted(show_size(seat.memory_bytes)))
    return [
        Panel("cpu", _("CPU"), Unit.CPUS, given, cpus_now, own.times, ((_("used"), cpus),)),
        Panel("memory", _("Memory"), Unit.BYTES, float(seat.memory_bytes), memory_now, own.times, ((_("used"), memory),)),
    ]


def host_panels(host: Series, node: str) -> list[Panel]:
    """Counted for the machine alone: nobody can tell whose bytes they are."""
    read, written = means(host, "read_bytes_per_s"), means(host, "written_bytes_per_s")
    received, sent = means(host, "received_bytes_per_s"), means(host, "sent_bytes_per_s")
    pairs = [
        ("disk", _("Disk of {node}").format(node=node), ((_("read"), read), (_("written"), written))),
        ("network", _("Network of {node}").format(node=node), ((_("received"), received), (_("sent"), sent))),
    ]
    return [Panel(key, title, Unit.BYTES_PER_S, None, rates_now(lines), host.times, lines) for key, title, lines in pairs]


def rates_now(lines: Sequence[tuple[str, Values]]) -> str:
    return " · ".join(value_words(last(values), Unit.BYTES_PER_S) for _name, values in lines)


def percents(used: Values, held: Values) -> Values:
    return [None if some is None or not all_of else 100 * some / all_of for some, all_of in zip(used, held, strict=True)]


def means(series: Series, column: str) -> Values:
    found = series.columns.get(column)
    return [None] * len(series.times) if found is None else found.mean


def last(values: Values) -> float | None:
    """Of the newest three: the last may not be whole yet."""
    return next((value for value in reversed(values[-3:]) if value is not None), None)


def of_words(values: Values, unit: Unit, whole: str) -> str:
    return _("{figure} of {whole}").format(figure=value_words(last(values), unit), whole=whole)


def value_words(value: float | None, unit: Unit) -> str:
    if value is None:
        return _("not known")
    match unit:
        case Unit.PERCENT:
            return f"{value:.0f}{UNBROKEN}%"
        case Unit.CPUS:
            return f"{value:.1f}"
        case Unit.BYTES:
            return unparted(show_size(int(value)))
        case Unit.BYTES_PER_S:
            return unparted(show_size(int(value))) + "/s"


def unparted(words: str) -> str:
    return words.replace(" ", UNBROKEN)


def moment_of(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def plain(panels: Sequence[Panel], shown: Stretch) -> dict[str, object]:
    """As the page's script is sent it: columns of numbers, rounded to what a chart can show."""
    return {
        "since": shown.since.timestamp(), "until": shown.until.timestamp(), "step_s": shown.step_s,
        "panels": [
            {
                "key": panel.key, "title": panel.title, "unit": panel.unit, "full": panel.full, "now": panel.now,
                "times": [round(at.timestamp(), 1) for at in panel.times],
                "lines": [{"name": name, "values": [rounded(value) for value in values]} for name, values in panel.lines],
            }
            for panel in panels
        ],
    }  # fmt: skip


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def drawn(panel: Panel) -> Chart | None:
    """For those without a script; None where nothing is known."""
    known = [value for _name, values in panel.lines for value in values if value is not None]
    if not known:
        return None
    top = max([panel.full or 0.0, *known]) or 1.0
    lines = tuple(line(name, LOOKS[place], values, top) for place, (name, values) in enumerate(panel.lines))
    return Chart(panel.title, panel.now, value_words(top, panel.unit), lines, f"{panel.title}: {panel.now}")
