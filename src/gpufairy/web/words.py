"""Values in the words of the pages: states with their marks, amounts with their units, times as people tell them."""
from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

from gpufairy.core.amounts import show_duration, show_size
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Outcome, Seat, Session
from gpufairy.core.share import PARTS, Share, ShareKind
from gpufairy.web.asked import Language, asked
from gpufairy.web.sentences import told
from gpufairy.web.speech import _

UNBROKEN = "\N{NO-BREAK SPACE}"  # a figure never parts from its unit
HUES = 12  # as many as look.css has; more would not be told apart


@dataclass(frozen=True, slots=True)
class Mark:
    """A state as people see it: a word, and the class that gives it shape and colour."""

    word: str
    look: str


def mark_of(session: Session) -> Mark:
    if session.outcome is not None:
        bad = session.outcome in (Outcome.FAILED, Outcome.LOST)
        return Mark(outcome_word(session.outcome), "bad" if bad else "end")
    marks = {
        Phase.QUEUED: Mark(_("Waiting"), "wait"),
        Phase.PLACED: Mark(_("Waiting"), "wait"),
        Phase.STARTING: Mark(_("Starting"), "start"),
        Phase.RUNNING: Mark(_("Running"), "run"),
        Phase.STOPPING: Mark(_("Stopping"), "start"),
        Phase.LOST: Mark(_("Lost"), "bad"),
        Phase.ENDED: Mark(_("Ended"), "end"),
    }
    return marks[session.phase]


def outcome_word(outcome: Outcome) -> str:
    words = {
        Outcome.DONE: _("Done"), Outcome.FAILED: _("Failed"), Outcome.STOPPED: _("Stopped"), Outcome.EXPIRED: _("Expired"),
        Outcome.EVICTED: _("Evicted"), Outcome.LOST: _("Lost"),
    }  # fmt: skip
    return words[outcome]


def hue_of(user: str) -> str:
    """A user keeps one hue everywhere, so it hangs on nothing but the name."""
    return f"hue-{crc32(user.encode()) % HUES}"


def gpus_words(parts: int) -> str:
    """`1.5 GPUs`, `0.29 GPU`: two places, since nobody reads sevenths to the sixth."""
    return amount_words(parts / PARTS, "GPU")


def amount_words(amount: float, thing: str) -> str:
    figure = f"{amount:.2f}".rstrip("0").rstrip(".")
    things = thing if amount <= 1 or asked().language is not Language.EN else f"{thing}s"
    return _("{figure} {thing}").format(figure=figure, thing=things).replace(" ", UNBROKEN)


def share_words(share: Share) -> str:
    match share.kind:
        case ShareKind.NONE:
            return _("no GPU")
        case ShareKind.MIG:
            return f"MIG {share.profile}"
        case ShareKind.FGPU:
            return f"{str(share).removesuffix('fgpu')} fGPU"
        case _:
            return gpus_words(share.parts)


def seat_words(seat: Seat) -> str:
    """`0.5 GPU, 4 CPUs, 16 GiB on gpu01`."""
    gpus = gpus_words(seat.gpu_parts) if seat.gpus else _("no GPU")
    cpus, memory = amount_words(seat.cpus_milli / 1000, "CPU"), show_size(seat.memory_bytes)
    return _("{gpus}, {cpus}, {memory} on {node}").format(gpus=gpus, cpus=cpus, memory=memory, node=seat.node)


def clock_words(at: datetime, now: datetime) -> str:
    """The time of day where the reader is, with the date if it is another day's; where that is not known, at the server."""
    here, today = at.astimezone(asked().zone), now.astimezone(asked().zone)
    return here.strftime("%H:%M %Z" if here.date() == today.date() else "%Y-%m-%d %H:%M %Z")


def ago_words(at: datetime, now: datetime) -> str:
    return _("{time} ago").format(time=time_words(now - at))


def time_words(time: timedelta) -> str:
    return told(show_duration(time)).replace(" ", UNBROKEN)


def about_words(time: timedelta) -> str:
    """An estimate is not told to the second."""
    minutes = round(time.total_seconds() / 60)
    return time_words(timedelta(minutes=minutes)) if minutes >= 1 else _("less than a minute")
