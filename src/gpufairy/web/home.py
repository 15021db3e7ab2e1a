"""The first page: what I hold, what waits and why, where the GPUs are, what ended lately."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.find import wait_of
from gpufairy.control.house import House
from gpufairy.control.watch import Seen
from gpufairy.core.explain import Wait, why_now
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reading import GpuReading
from gpufairy.core.session import Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.web.gpu_bars import Host, hosts
from gpufairy.web.watched_hosts import watched_hosts
from gpufairy.web.words import Mark, about_words, ago_words, clock_words, counted, gpus_words, mark_of, share_words, start_words, time_words

MOST_ROWS = 50  # live sessions on one page; of more the page says how many
ENDED_ROWS = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One session in a table."""

    name: str
    href: str
    kind: str
    mark: Mark
    why: str
    when: str
    gpus: str
    simulated: bool


@dataclass(frozen=True, slots=True)
class Home:
    answer: str
    next_step: str
    free: str  # `1.5`
    gpus: int
    running: int  # everybody's, as all the rest of the figures
    waiting: int
    rows: tuple[Row, ...]
    more: int
    hosts: tuple[Host, ...]
    ended: tuple[Row, ...]


async def home(house: House, user: str, readings: Mapping[str, GpuReading]) -> Home:
    ended = await house.store.sessions.page(owner=user, states=(Phase.ENDED,), name=None, limit=ENDED_ROWS, after=None)
    now, cluster = house.clock(), house.cluster()
    active = sorted((s for s in house.book.active.values() if s.owner == user), key=lambda s: s.number)
    mine = [*active, *house.book.queues.get(user, ()), *(s for s in house.book.held_back.values() if s.owner == user)]
    shown = mine[:MOST_ROWS]
    waits = {session.id: wait for session in shown if (wait := wait_of(house, session)) is not None}
    free_parts = sum(gpu.free_parts for room in cluster.rooms().values() for gpu in room.gpus)
    gpus = sum(len(node.gpus) for node in cluster.nodes)
    first_wait = next(iter(waits.values()), None)
    free = gpus_words(free_parts).split()[0]
    return Home(
        answer=answer(active, len(mine) - len(active), first_wait, now),
        next_step=next_step(mine, first_wait, f"{free} of {counted(gpus, 'GPU')} free now."),
        free=free,
        gpus=gpus,
        running=sum(session.phase is Phase.RUNNING for session in cluster.holding),
        waiting=house.book.waiting(),
        rows=tuple(live_row(session, waits.get(session.id), now) for session in shown),
        more=len(mine) - len(shown),
        hosts=(*hosts(cluster, readings, user), *watched_hosts(watched(house))),
        ended=tuple(ended_row(session, now) for session in sorted(ended, key=lambda s: s.ended_at or s.since, reverse=True)),
    )


def watched(house: House) -> list[Seen]:
    ours = {node.name for node in house.nodes}
    return [seen for seen in house.watch.hosts() if seen.node not in ours]


def answer(active: Sequence[Session], waiting: int, first_wait: Wait | None, now: datetime) -> str:
    """The question one came with: what do I hold, what waits, until when."""
    if not active and not waiting:
        return "You hold nothing, and nothing of yours waits."
    held = holding_words(active)
    if not waiting:
        return f"{held}. Nothing of yours waits."
    start = first_wait.forecast_start if first_wait is not None else None
    subject = "1 session waits" if waiting == 1 else f"{waiting} sessions wait"
    return f"{held}. {subject}." if start is None else f"{held}. {subject}: the first about {about_words(start - now)} more."


def holding_words(active: Sequence[Session]) -> str:
    parts = sum(session.seat.gpu_parts for session in active if session.seat is not None)
    if not active:
        return "You hold nothing yet"
    sessions = counted(len(active), "session")
    return f"You hold {gpus_words(parts)} in {sessions}" if parts >= PARTS // 100 else f"You hold no GPU in {sessions}"


def next_step(mine: Sequence[Session], first_wait: Wait | None, free: str) -> str:
    if first_wait is not None and first_wait.next_step:
        return first_wait.next_step
    return free if mine else f"{free} Start something with the first command below."


def live_row(session: Session, wait: Wait | None, now: datetime) -> Row:
    seat = session.seat
    gpus = share_words(session.request.share) if seat is None else held_words(seat)
    simulated = seat is not None and any(gpu.simulated for gpu in seat.gpus)
    why = why_now(session, wait)
    return Row(session.name, f"/sessions/{session.name}", session.kind, mark_of(session), why, when(session, wait, now), gpus, simulated)


def held_words(seat: Seat) -> str:
    profiles = [gpu.profile for gpu in seat.gpus if gpu.profile]
    return f"MIG {', '.join(profiles)}" if profiles else gpus_words(seat.gpu_parts) if seat.gpus else "no GPU"


def when(session: Session, wait: Wait | None, now: datetime) -> str:
    if wait is not None:
        place = "" if wait.place is None else f"place {wait.place} in line"
        start = start_words(wait.forecast_start, now) if wait.forecast_start is not None else start_unknown(wait)
        return ", ".join(part for part in (place, start) if part)
    since = f"for {time_words(now - session.since)}"
    return since if session.expected_end is None else f"{since}, ends by {clock_words(session.expected_end, now)}"


def start_unknown(wait: Wait) -> str:
    return "" if wait.place is None or not wait.forecast_why else f"start {wait.forecast_why}"


def ended_row(session: Session, now: datetime) -> Row:
    """By its id: its name may be another's by now."""
    ended = "" if session.ended_at is None else ago_words(session.ended_at, now)
    gpus = share_words(session.request.share)
    simulated = session.seat is not None and any(gpu.simulated for gpu in session.seat.gpus)
    return Row(session.name, f"/sessions/{session.id}", session.kind, mark_of(session), session.why, ended, gpus, simulated)
