"""One session's page: its state and why, what it asked, what it was given and how firmly, what befell it, the end of its log."""
import shlex
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from gpufairy.control.find import wait_of
from gpufairy.control.house import House
from gpufairy.control.roster import ENDS_SOON
from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.explain import why_now
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import GpuSeat, Request, Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import SHARED_FAULTS, by_mps
from gpufairy.core.steps import Event
from gpufairy.core.workload import WorkloadId
from gpufairy.web.chart import Chart
from gpufairy.web.context import PageContext
from gpufairy.web.home import when
from gpufairy.web.session_charts import session_charts
from gpufairy.web.text import as_terminal
from gpufairy.web.words import Mark, ago_words, clock_words, mark_of, seat_words, share_words, time_words

LOG_BYTES = 64 * 2**10  # of its end: what went wrong stands there, and a page stays quick
LAST_ATTEMPTS = 3
MOST_EVENTS = 100
GIVEN = {"memory": "GPU memory", "sm": "Multiprocessors"}


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
class LogTail:
    text: str
    cut: bool  # something stands before it


@dataclass(frozen=True, slots=True)
class SessionPage:
    name: str
    kind: str
    live: bool
    mark: Mark
    simulated: bool
    why: str
    when: str  # of one that lives: since when, until when
    next_step: str
    facts: tuple[str, ...]
    refusals: tuple[str, ...]  # of one that waits: what each node says
    asked: tuple[tuple[str, str], ...]
    given: tuple[Given, ...]
    note: str  # what those should know who share a GPU
    isolation: str
    history: tuple[Told, ...]
    log: LogTail
    charts: tuple[Chart, ...]
    ends_soon: str  # how long is left, of one that ends soon


async def session_page(house: House, session: Session) -> SessionPage:
    events = await house.store.events.page(session_id=session.id, limit=MOST_EVENTS, newest=True)
    log = await log_tail(house, session)
    now, wait = house.clock(), wait_of(house, session)
    return SessionPage(
        name=session.name,
        kind=session.kind,
        live=session.phase is not Phase.ENDED,
        mark=mark_of(session),
        simulated=session.seat is not None and any(gpu.simulated for gpu in session.seat.gpus),
        why=why_now(session, wait),
        when="" if session.phase is Phase.ENDED else when(session, wait, now),
        next_step="" if wait is None else wait.next_step,
        facts=facts(session, now),
        refusals=() if wait is None else tuple(refusal.why for refusal in wait.refusals),
        asked=asked(session.request, root=house.gallery.root_inside(session)),
        given=() if session.seat is None else given(session.seat),
        note=SHARED_FAULTS if session.seat is not None and any(map(by_mps, session.seat.gpus)) else "",
        isolation=house.engine.isolation,
        history=tuple(told(event, now) for event in reversed(events)),
        log=log,
        charts=await session_charts(house, session),
        ends_soon=ends_soon(session, now),
    )


def ends_soon(session: Session, now: datetime) -> str:
    end = session.expected_end
    return time_words(end - now) if session.phase is Phase.RUNNING and end is not None and now < end < now + ENDS_SOON else ""


def ways_in(context: PageContext, user: str, session: SessionPage) -> tuple[tuple[str, str], ...]:
    """Commands to copy, of one that runs."""
    if session.mark.look != "run":
        return ()
    where, fairy = f"{user}+{session.name}@{urlsplit(context.url).hostname}", context.fairy_command
    port = context.ssh_port
    by_ssh = (("shell", f"ssh -p {port} {where}"), ("files", f"sftp -P {port} {where}")) if port is not None else ()
    return (*by_ssh, ("Jupyter", f"{fairy} open {session.name} jupyter"))


def facts(session: Session, now: datetime) -> tuple[str, ...]:
    """The second line: what it has or had, and how it went."""
    lines = [share_words(session.request.share) + " asked" if session.seat is None else seat_words(session.seat)]
    if session.started_at is not None and session.ended_at is not None:
        lines.append(f"ran {time_words(session.ended_at - session.started_at)}")
    if session.exit_code is not None:
        lines.append(f"exit code {session.exit_code}")
    if session.ended_at is not None:
        lines.append(f"ended {ago_words(session.ended_at, now)}")
    return tuple(lines)


def asked(request: Request, *, root: bool) -> tuple[tuple[str, str], ...]:
    """What was asked for, in words; what was left open is left out. Of the environment the names alone: values may be secrets."""
    pairs = [
        ("command", shlex.join(request.command)),
        ("GPUs", share_words(request.share)),
        ("GPU kind", request.gpu_kind or ""),
        ("GPU memory", "" if request.gpu_memory_bytes is None else show_size(request.gpu_memory_bytes)),
        ("CPUs", "" if request.cpus_milli is None else show_cpus(request.cpus_milli)),
        ("memory", "" if request.memory_bytes is None else show_size(request.memory_bytes)),
        ("time", "" if request.time_limit is None else f"at most {time_words(request.time_limit)}"),
        ("image", (request.image or "") + (" (you are root in it)" if root else "")),
        ("pool", request.pool or ""),
        ("folder", request.workdir or ""),
        ("mounts", ", ".join(request.mounts)),
        ("ports", ", ".join(map(str, request.ports))),
        ("environment", ", ".join(name for name, _ in request.env)),
        ("retries", str(request.retries or "")),
    ]
    return tuple(pair for pair in pairs if pair[1])


def given(seat: Seat) -> tuple[Given, ...]:
    return tuple(one for gpu in seat.gpus for one in given_of(gpu))


def given_of(gpu: GpuSeat) -> list[Given]:
    """Each thing is said to be enforced or only accounted, as the seat was given; never better than it is."""
    shares = {"memory": show_size(gpu.memory_bytes), "sm": gpu.profile or f"{100 * gpu.parts / PARTS:.4g} %"}
    named = f"GPU {gpu.index}" + (f", {gpu.kind}" if gpu.kind else "")
    both = [(what, True) for what in gpu.enforced] + [(what, False) for what in gpu.accounted]
    return [Given(named, gpu.simulated, GIVEN.get(what, what), shares.get(what, ""), enforced) for what, enforced in both]


def told(event: Event, now: datetime) -> Told:
    at = clock_words(event.at, now)
    return Told(at, ago_words(event.at, now), event.what.replace("_", " "), event.why, event.attempt, event.actor)


async def log_tail(house: House, session: Session) -> LogTail:
    """The end of what its last attempts printed, one after the other."""
    chunks: list[bytes] = []
    for attempt in range(max(1, session.attempt - LAST_ATTEMPTS + 1), session.attempt + 1):
        workload = WorkloadId(session.id, attempt)
        # One byte more than is shown tells that something stands before it.
        begin = max(0, await house.engine.log_size(workload) - LOG_BYTES - 1)
        chunks += [chunk async for chunk in house.engine.logs(workload, follow=False, from_bytes=begin)]
    return tail_of(b"".join(chunks))


def tail_of(printed: bytes) -> LogTail:
    """Begins with a whole line where there is one: half a line, or half a character, says nothing."""
    cut = len(printed) > LOG_BYTES
    tail = printed[-LOG_BYTES:]
    return LogTail(as_terminal((tail.partition(b"\n")[2] or tail) if cut else tail), cut)


