"""The verdict on what stands in the form: does it start now, or when and why not; what it would be given, and how firmly."""
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.preview import Preview
from gpufairy.core.amounts import show_cpus
from gpufairy.core.errors import FairyError
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import SHARED_FAULTS, by_mps
from gpufairy.web.forecasts import forecast_words
from gpufairy.web.gauges import size_words
from gpufairy.web.launch_form import FIELDS
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import counted_gpus
from gpufairy.web.told_here import told_here
from gpufairy.web.words import UNBROKEN, Mark

IMAGE_FAULT = "image "  # how sentences about an image begin, which name it instead of the field


@dataclass(frozen=True, slots=True)
class Given:
    """One thing of the seat, and whether anything holds the session to it."""

    what: str
    share: str
    enforced: bool | None  # None: it is the engine's own business


@dataclass(frozen=True, slots=True)
class Fault:
    """Why it cannot be: beside which field it belongs, what was found, what to do."""

    field: str  # empty: of no single one
    detail: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Verdict:
    mark: Mark
    answer: str
    when: str = ""
    why: str = ""  # a sentence of core
    next_step: str = ""  # likewise, as are the next
    helps: tuple[str, ...] = ()
    given: tuple[Given, ...] = ()
    simulated: bool = False
    shared_faults: str = ""
    notes: tuple[str, ...] = ()
    fault: Fault | None = None

    def fault_at(self, field: str) -> Fault | None:
        return self.fault if self.fault is not None and self.fault.field == field else None


def verdict_of(found: Preview, now: datetime) -> Verdict:
    seat, wait = found.seat, found.wait
    return Verdict(
        mark=mark_of(found),
        answer=answer(found),
        when="" if wait is None else forecast_words(wait, now),
        why="" if wait is None else wait.summary,
        next_step="" if wait is None or wait.helps else wait.next_step,
        helps=() if wait is None else wait.helps,
        given=() if seat is None else given(seat),
        simulated=seat is not None and any(gpu.simulated for gpu in seat.gpus),
        shared_faults=SHARED_FAULTS if seat is not None and any(map(by_mps, seat.gpus)) else "",
        notes=found.notes,
    )


def mark_of(found: Preview) -> Mark:
    if found.wait is None:
        return Mark(_("Starts now"), "run")
    return Mark(_("Some start now"), "start") if found.starts_now else Mark(_("Waits"), "wait")


def answer(found: Preview) -> str:
    count, starts = len(found.sessions), found.starts_now
    if found.wait is None:
        node = "" if found.seat is None else found.seat.node
        if count == 1:
            return _("It starts now: there is room on {node}.").format(node=node)
        if count == starts:
            return _("All {count} start now.").format(count=count)
        return _("The first {tried} start now; the others as there is room.").format(tried=found.tried)
    if starts:
        words = ngettext("{starts} of {count} starts now, the others wait.", "{starts} of {count} start now, the others wait.", starts)
        return words.format(starts=starts, count=count)
    return _("It waits first.") if count == 1 else _("All {count} wait first.").format(count=count)


def given(seat: Seat) -> tuple[Given, ...]:
    rows = [row for gpu in seat.gpus[:1] for row in given_of(gpu, len(seat.gpus))]
    cpus = Given(_("CPUs"), show_cpus(seat.cpus_milli), None)
    return (*rows, cpus, Given(_("Memory"), size_words(seat.memory_bytes), None))


def given_of(gpu: GpuSeat, count: int) -> list[Given]:
    """Of several whole GPUs all are alike in this."""
    each = f"{count}{UNBROKEN}×{UNBROKEN}" if count > 1 else ""
    kind = Given(_("GPU"), each + (gpu.kind or counted_gpus(gpu.parts / PARTS)), None)
    shares = {"memory": each + size_words(gpu.memory_bytes), "sm": gpu.profile or f"{100 * gpu.parts / PARTS:.3g}{UNBROKEN}%"}
    names = {"memory": _("GPU memory"), "sm": _("Multiprocessors")}
    both = [(what, True) for what in gpu.enforced] + [(what, False) for what in gpu.accounted]
    return [kind, *(Given(names.get(what, what), shares.get(what, ""), enforced) for what, enforced in both)]


def verdict_on(error: FairyError) -> Verdict:
    """Of what is refused."""
    fault = fault_of(error)
    answer = _("It cannot start like this.") if fault.field else error.detail
    return Verdict(Mark(_("Not like this"), "bad"), answer, fault=fault)


def fault_of(error: FairyError) -> Fault:
    """Told whole, for the field's name is a part of the sentence; shown without it, for it stands beside the field."""
    detail, words = error.detail.removeprefix("session: "), told_here(error.detail).removeprefix("session: ")
    field, colon, _rest = detail.partition(": ")
    if colon and field in FIELDS:
        return Fault(field, words.removeprefix(f"{field}: "), error.next_step)
    return Fault("image" if detail.startswith(IMAGE_FAULT) else "", words, error.next_step)
