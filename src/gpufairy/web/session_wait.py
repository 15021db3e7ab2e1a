"""Of a session that waits: when it is likely to start, why not now, and what would help. And of one that is over: how it went."""
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.history import Chronicle
from gpufairy.control.house import House
from gpufairy.core.explain import Wait
from gpufairy.core.session import Session
from gpufairy.web.speech import _
from gpufairy.web.times import clock, length
from gpufairy.web.words import UNBROKEN, time_words

HOUR_S, MINUTE_S = 3600, 60


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, and under it what it says."""

    value: str
    words: str


@dataclass(frozen=True, slots=True)
class Waiting:
    figures: tuple[Figure, ...]
    why: str  # why then, and not sooner
    own_time: str
    helps: tuple[str, ...]
    refusals: tuple[tuple[str, int], ...]  # in words, and how many nodes say so
    more_nodes: int


def waiting(wait: Wait, now: datetime) -> Waiting:
    place = () if wait.place is None else (Figure(str(wait.place), _("place in line")),)
    return Waiting(
        figures=(*start_figures(wait, now), *place),
        why=wait.forecast_why,
        own_time=wait.own_time,
        helps=wait.helps,
        refusals=tuple((refusal.why, refusal.nodes) for refusal in wait.refusals),
        more_nodes=wait.more_nodes,
    )



def start_figures(wait: Wait, now: datetime) -> tuple[Figure, ...]:
    if wait.forecast_start is None:
        return ()
    start = wait.forecast_start
    ahead = _("in {time}").format(time=length(start - now)) if start > now else _("any moment")
    words = [_("likely start, {ahead}").format(ahead=ahead), range_words(wait, now)]
    return (Figure(clock(start, now), "; ".join(word for word in words if word)),)


def range_words(wait: Wait, now: datetime) -> str:
    if wait.forecast_low is None:
        return ""
    low = clock(max(wait.forecast_low, now), now)
    if wait.forecast_high is None:
        return _("{low} at the soonest, and nobody can tell how late").format(low=low)
    high = clock(wait.forecast_high, now)
    return "" if low == high else _("four of five start between {low} and {high}").format(low=low, high=high)


async def how_it_went(house: House, session: Session) -> tuple[Figure, ...]:
    """Of one that is over. Held by the ledger, used by the readings."""
    figures = []
    if session.started_at is not None and session.ended_at is not None:
        figures.append(Figure(time_words(session.ended_at - session.started_at), _("ran")))
    if session.exit_code is not None:
        figures.append(Figure(str(session.exit_code), _("exit code")))
    if session.seat is None or not session.seat.gpus:
        return tuple(figures)
    row = await Chronicle(house).usage_of_session(session)
    if row is None:
        return tuple(figures)
    figures.append(Figure(gpu_hours(row.held_s), _("held")))
    if row.used_s is None:
        return (*figures, Figure(_("not known"), _("used")))
    part = "" if row.held_s <= 0 else f"{100 * row.used_s / row.held_s:.0f}{UNBROKEN}%"
    return (*figures, Figure(gpu_hours(row.used_s), _("used, {part} of what was held").format(part=part) if part else _("used")))


def gpu_hours(seconds: float) -> str:
    """In the unit that leaves a figure to read."""
    if seconds >= HOUR_S / 10:
        return f"{seconds / HOUR_S:.1f}{UNBROKEN}" + _("GPU-hours")
    if seconds >= MINUTE_S:
        return f"{seconds / MINUTE_S:.1f}{UNBROKEN}" + _("GPU-minutes")
    return f"{seconds:.0f}{UNBROKEN}" + _("GPU-seconds")
