"""Rows of a session's page: what was asked, what was given and how firmly, who else is on its GPUs, what befell it."""
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.house import House
from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.holders import Holder, holders_by_gpu
from gpufairy.core.session import GpuSeat, Request, Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.core.steps import Event
from gpufairy.web.event_words import what_words
from gpufairy.web.gpu_bars import Bar, Looked, bar
from gpufairy.web.speech import _
from gpufairy.web.times import clock, length
from gpufairy.web.words import UNBROKEN, gpus_words, hue_of, share_words, time_words


@dataclass(frozen=True, slots=True)
class Given:
    """One thing of a seat, and whether anything holds the session to it."""

    gpu: str
    simulated: bool
    what: str
    share: str
    enforced: bool


@dataclass(frozen=True, slots=True)
class Told:
    """One row of its history."""

    at: str
    ago: str
    what: str
    why: str
    attempt: int
    actor: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    owner: str
    hue: str
    share: str
    mine: str  # the session's name, if it is one of the reader's own


@dataclass(frozen=True, slots=True)
class OnGpu:
    """One of its GPUs, and who else is on it."""

    named: str
    bar: Bar | None  # None: the node does not tell of it now
    others: tuple[Neighbour, ...]


def asked_rows(request: Request, *, root: bool) -> tuple[tuple[str, str, bool], ...]:
    """What was asked for, in words, and whether that is code; what was left open is left out. Of the environment the names alone: values
    may be secrets."""
    rows = [
        (_("command"), shlex.join(request.command), True),
        (_("GPUs"), share_words(request.share), False),
        (_("GPU kind"), request.gpu_kind or "", False),
        (_("GPU memory"), "" if request.gpu_memory_bytes is None else show_size(request.gpu_memory_bytes), False),
        (_("CPUs"), "" if request.cpus_milli is None else show_cpus(request.cpus_milli), False),
        (_("memory"), "" if request.memory_bytes is None else show_size(request.memory_bytes), False),
        (_("time"), "" if request.time_limit is None else _("at most {time}").format(time=time_words(request.time_limit)), False),
        (_("image"), (request.image or "") + (" " + _("(you are root in it)") if root else ""), False),
        (_("pool"), request.pool or "", False),
        (_("folder"), request.workdir or "", True),
        (_("mounts"), ", ".join(request.mounts), True),
        (_("ports"), ", ".join(map(str, request.ports)), False),
        (_("environment"), ", ".join(name for name, _value in request.env), True),
        (_("retries"), str(request.retries or ""), False),
        (_("preemptible"), _("yes: it goes back into the queue when its place is wanted") if request.preemptible else "", False),
    ]
    return tuple(row for row in rows if row[1])


def given_rows(seat: Seat) -> tuple[Given, ...]:
    return tuple(one for gpu in seat.gpus for one in given_of(gpu))


def given_of(gpu: GpuSeat) -> list[Given]:
    """Each thing is said to be enforced or only accounted, as the seat was given; never better than it is."""
    shares = {"memory": show_size(gpu.memory_bytes), "sm": gpu.profile or f"{100 * gpu.parts / PARTS:.4g}{UNBROKEN}%"}
    names = {"memory": _("GPU memory"), "sm": _("Multiprocessors")}
    both = [(what, True) for what in gpu.enforced] + [(what, False) for what in gpu.accounted]
    return [Given(gpu_named(gpu), gpu.simulated, names.get(what, what), shares.get(what, ""), enforced) for what, enforced in both]


def gpu_named(gpu: GpuSeat) -> str:
    return f"GPU{UNBROKEN}{gpu.index}" + (f", {gpu.kind}" if gpu.kind else "")


def on_gpus(house: House, session: Session) -> tuple[OnGpu, ...]:
    """Who holds GPUs is everybody's business here; what they run is not."""
    if session.seat is None or not session.holds_gpus:
        return ()
    holders = holders_by_gpu(house.book.holding())
    looked = Looked(session.owner, house.clock(), house.watch.readings())
    room = house.cluster().rooms().get(session.seat.node)
    rooms = {} if room is None else {one.gpu.uuid: one for one in room.gpus}
    found = []
    for gpu in session.seat.gpus:
        here = holders.get(gpu.uuid, [])
        drawn = bar(rooms[gpu.uuid], here, looked) if gpu.uuid in rooms else None
        found.append(OnGpu(gpu_named(gpu), drawn, neighbours(here, session)))
    return tuple(found)


def neighbours(here: Sequence[Holder], session: Session) -> tuple[Neighbour, ...]:
    others = [holder for holder in here if (holder.owner, holder.session) != (session.owner, session.name)]
    return tuple(
        Neighbour(
            holder.owner, hue_of(holder.owner), holder.gpu.profile or gpus_words(holder.gpu.parts),
            holder.session if holder.owner == session.owner else "",
        )
        for holder in others
    )  # fmt: skip


def told_row(event: Event, now: datetime) -> Told:
    ago = _("{time} ago").format(time=length(now - event.at))
    return Told(clock(event.at, now), ago, what_words(event.what), event.why, event.attempt, event.actor)
