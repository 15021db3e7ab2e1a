"""Advice and the summary of what is over, as pages show them: a sentence of core, its figures in the reader's tongue, what to do."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from gpufairy.control.advise import advice_if_known
from gpufairy.control.house import House
from gpufairy.control.insight import runs
from gpufairy.control.session_summary import summary_of
from gpufairy.core.amounts import show_size
from gpufairy.core.insight import Advice, Evidence
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.session_summary import JOULES_PER_KWH, Summary, sufficed_words
from gpufairy.web.speech import _
from gpufairy.web.times import figure_of, length
from gpufairy.web.words import UNBROKEN

MOST_AT_HOME = 3
SURE, LIKELY = 0.85, 0.7  # of confidence


@dataclass(frozen=True, slots=True)
class Said:
    session: str
    href: str
    simulated: bool
    sentence: str  # of core, as is the next
    next_step: str
    figures: tuple[str, ...]
    sure: str
    window: str


@dataclass(frozen=True, slots=True)
class Afterwards:
    """Of one that is over."""

    energy: str
    cost: str
    sufficed: str  # options of a request; empty: what it had, or nobody knows
    peaks: tuple[str, ...]


async def advice_of_user(house: House, user: str) -> tuple[Said, ...]:
    """What would save the most, over all that runs."""
    mine = [session for session in house.book.active.values() if session.owner == user and runs(session)]
    known = await advice_if_known(house, mine)
    found = [(session, one) for session in mine for one in known.get(session.id, ())]
    found.sort(key=lambda pair: -pair[1].saves_gpus)
    return tuple(said(session, one) for session, one in found[:MOST_AT_HOME])


async def advice_of_session(house: House, session: Session) -> tuple[Said, ...]:
    known = await advice_if_known(house, [session])
    return tuple(said(session, one) for one in known.get(session.id, ()))


async def afterwards(house: House, session: Session) -> Afterwards | None:
    made = await summary_of(house, session) if session.phase is Phase.ENDED else None
    if made is None:
        return None
    energy = "" if made.energy_j is None else f"{figure_of(made.energy_j / JOULES_PER_KWH)}{UNBROKEN}kWh"
    cost = "" if made.cost is None else f"{figure_of(made.cost.amount)}{UNBROKEN}{made.cost.currency}"
    return Afterwards(energy, cost, sufficed_words(made.sufficed), peaks_words(made))


def peaks_words(made: Summary) -> tuple[str, ...]:
    """The most of each that it took, of what it had."""
    peaks, given = made.peaks, made.given
    rows = (
        (_("GPU memory"), peaks.gpu_memory_bytes, given.gpu_memory_bytes, "bytes"), (_("CPUs"), peaks.cpus, given.cpus, "cpus"),
        (_("Memory"), peaks.memory_bytes, given.memory_bytes, "bytes"),
    )  # fmt: skip
    return tuple(f"{name} {of_words(value, unit, limit)}" for name, value, limit, unit in rows if value is not None and limit)


def said(session: Session, one: Advice) -> Said:
    simulated = session.seat is not None and any(gpu.simulated for gpu in session.seat.gpus)
    return Said(
        session.name, f"/sessions/{session.name}", simulated, one.sentence, one.next_step, figures(one.evidence),
        sure_words(one.confidence), length(one.window),
    )  # fmt: skip


def sure_words(confidence: float) -> str:
    return _("sure") if confidence >= SURE else _("likely") if confidence >= LIKELY else _("perhaps")


def figures(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    names = {
        "gpu": _("GPU"), "cpus": _("CPUs"), "memory": _("Memory"), "gpu_memory": _("GPU memory"), "io_waited": _("waited for a disk"),
        "disk_busy": _("disk busy"), "moved": _("read and written"), "received": _("received"), "filled": _("filled while it works"),
        "throttled": _("held back"), "temperature": _("temperature"), "power": _("power"), "rests": _("nothing ran for"),
    }  # fmt: skip
    return tuple(f"{names.get(one.what, one.what.upper())} {of_words(one.value, one.unit, one.of)}" for one in evidence)


def of_words(value: float, unit: str, limit: float | None) -> str:
    if limit is None:
        return amount(value, unit)
    return _("{figure} of {whole}").format(figure=amount(value, unit), whole=amount(limit, unit))


def amount(value: float, unit: str) -> str:
    match unit:
        case "ratio":
            return f"{100 * value:.0f}{UNBROKEN}%"
        case "bytes":
            return show_size(int(value)).replace(" ", UNBROKEN)
        case "bytes_per_s":
            return show_size(int(value)).replace(" ", UNBROKEN) + "/s"
        case "seconds":
            return length(timedelta(seconds=value))
        case "watts" | "celsius":
            return f"{value:.0f}{UNBROKEN}{'W' if unit == 'watts' else '°C'}"
    return figure_of(value, 1)
