"""One session's page: its state and why, what to do next, what it has, who is beside it, what befell it."""
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from gpufairy.control.find import wait_of
from gpufairy.control.house import House
from gpufairy.control.resume import kept_image
from gpufairy.control.roster import ENDS_SOON
from gpufairy.core.amounts import show_size
from gpufairy.core.apps import APPS
from gpufairy.core.explain import Wait, why_now
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import IdleStep, Seat, Session, Wanted
from gpufairy.core.sharing import SHARED_FAULTS, by_mps
from gpufairy.web.context import PageContext
from gpufairy.web.session_rows import Given, OnGpu, Told, asked_rows, given_rows, on_gpus, told_row
from gpufairy.web.session_wait import Figure, Waiting, how_it_went, waiting
from gpufairy.web.speech import _
from gpufairy.web.times import clock, length
from gpufairy.web.under_way import Doing
from gpufairy.web.words import Mark, amount_words, gpus_words, mark_of, share_words, time_words

MOST_EVENTS = 100


@dataclass(frozen=True, slots=True)
class SessionPage:
    name: str
    path: str  # where its page is: by its name while it lives, by its id when that may be another's
    kind: str
    live: bool
    running: bool
    mark: Mark
    simulated: bool
    why: str
    when: str  # of one that lives: since when, until when
    next_step: str
    facts: tuple[str, ...]
    waiting: Waiting | None
    figures: tuple[Figure, ...]  # of one that is over
    asked: tuple[tuple[str, str, bool], ...]
    given: tuple[Given, ...]
    on_gpus: tuple[OnGpu, ...]
    note: str  # what those should know who share a GPU
    isolation: str
    history: tuple[Told, ...]
    ends_soon: str  # how long is left, of one that ends soon
    idle: str  # of one that does not use its GPUs: what was done about that, and what comes next
    has_images: bool
    can_stop: bool
    doing: Doing | None  # what takes its time
    kept: str  # the image from which it would start again
    fetching: str  # how far its image has come, of one that starts and whose image was not there
    charted: bool  # it had a seat, so that there is something to draw


async def session_page(house: House, session: Session, doing: Doing | None = None) -> SessionPage:
    events = await house.store.events.page(session_id=session.id, limit=MOST_EVENTS, newest=True)
    now, wait, ended = house.clock(), wait_of(house, session), session.phase is Phase.ENDED
    kept = kept_image(house, session) if ended else None
    return SessionPage(
        name=session.name,
        path=f"/sessions/{session.id if ended else session.name}",
        kind=session.kind,
        live=not ended,
        running=session.phase is Phase.RUNNING,
        mark=mark_of(session),
        simulated=session.seat is not None and any(gpu.simulated for gpu in session.seat.gpus),
        why=why_now(session, wait),
        when="" if ended or wait is not None else when_words(session, now),
        next_step=next_step(session, wait, doing),
        facts=facts(session, now),
        waiting=None if wait is None else waiting(wait, now),
        figures=await how_it_went(house, session) if ended else (),
        asked=asked_rows(session.request, root=house.gallery.root_inside(session)),
        given=() if session.seat is None else given_rows(session.seat),
        on_gpus=on_gpus(house, session),
        note=SHARED_FAULTS if session.seat is not None and any(map(by_mps, session.seat.gpus)) else "",
        isolation=house.engine.isolation,
        history=tuple(told_row(event, now) for event in reversed(events)),
        ends_soon=ends_soon(session, now),
        idle=session.why if session.idle_step is not IdleStep.NONE and session.phase is Phase.RUNNING else "",
        has_images=house.gallery.shelf is not None,
        can_stop=not ended and session.wanted is Wanted.RUN,
        doing=doing,
        kept="" if kept is None else kept.name,
        fetching=fetching(house, session),
        charted=session.seat is not None and session.placed_at is not None,
    )


def fetching(house: House, session: Session) -> str:
    shelf = house.gallery.shelf
    if shelf is None or session.phase is not Phase.STARTING:
        return ""
    return shelf.pulling(session.request.image or house.gallery.rules.default)


def next_step(session: Session, wait: Wait | None, doing: Doing | None) -> str:
    """The second line: what to do now."""
    if wait is not None:
        return wait.next_step
    match session.phase:
        case Phase.RUNNING if doing is None or not doing.going:
            return _("Open its terminal or one of its apps, or watch what it prints.")
        case Phase.STARTING | Phase.PLACED:
            return _("Nothing is to be done: it is ready in a moment.")
        case Phase.STOPPING:
            return _("Its GPUs are free for others as soon as it has left.")
        case Phase.LOST:
            return _("It may still be running. Nothing of it is given away until its machine answers again.")
        case Phase.ENDED:
            return _("Look at the end of its log, or start it again as it was.")
    return ""


def when_words(session: Session, now: datetime) -> str:
    since = _("for {time}").format(time=time_words(now - session.since))
    if session.expected_end is None:
        return since
    return _("{since}, ends by {at}").format(since=since, at=clock(session.expected_end, now))


def ends_soon(session: Session, now: datetime) -> str:
    end = session.expected_end
    return time_words(end - now) if session.phase is Phase.RUNNING and end is not None and now < end < now + ENDS_SOON else ""


def facts(session: Session, now: datetime) -> tuple[str, ...]:
    """Under its name: what it has, had or asks for."""
    share = share_words(session.request.share)
    lines = [_("asks for {share}").format(share=share)] if session.seat is None else list(seat_facts(session.seat))
    if session.ended_at is not None:
        lines.append(_("ended {time} ago").format(time=length(now - session.ended_at)))
    elif session.started_at is not None:
        lines.append(_("since {at}").format(at=clock(session.started_at, now)))
    else:
        lines.append(_("submitted {time} ago").format(time=length(now - session.submitted_at)))
    return tuple(lines)


def seat_facts(seat: Seat) -> tuple[str, ...]:
    gpus = gpus_words(seat.gpu_parts) if seat.gpus else _("no GPU")
    memory = sum(gpu.memory_bytes for gpu in seat.gpus)
    with_memory = f"{gpus} ({show_size(memory)})" if memory else gpus
    return with_memory, amount_words(seat.cpus_milli / 1000, "CPU"), show_size(seat.memory_bytes), _("on {node}").format(node=seat.node)


def ways_in(context: PageContext, session: Session) -> tuple[tuple[str, str], ...]:
    """Commands to copy, of one that runs."""
    where, fairy, port = f"{session.owner}+{session.name}@{urlsplit(context.url).hostname}", context.fairy_command, context.ssh_port
    if port is None:
        return ((_("follow its log"), f"{fairy} logs -f {session.name}"),)
    return (
        (_("shell"), f"ssh -p {port} {where}"),
        (_("files"), f"sftp -P {port} {where}"),
        (_("a port"), f"ssh -p {port} -L 8000:localhost:8000 {where}"),
    )


def apps_of(context: PageContext, session: Session) -> list[tuple[str, str]]:
    """By name and title: those we start, and the ports it asked for."""
    if context.apps is None:
        return []
    ports = [(f"port:{port}", _("Port {port}").format(port=port)) for port in session.request.ports]
    return [*((app.name, app.title) for app in APPS), *ports]
