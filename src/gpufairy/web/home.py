"""The first page: what I hold and use, what waits and why, what I should do; then where the GPUs are, and what ended lately."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.find import wait_of
from gpufairy.control.house import House
from gpufairy.core.cluster import Cluster
from gpufairy.core.explain import Wait, why_now
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.room import Room
from gpufairy.core.session import Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.web.advice_view import Said, advice_of_user
from gpufairy.web.disk_page import DiskBlock, disk_block
from gpufairy.web.forecasts import forecast_words
from gpufairy.web.gpu_bars import Host, hosts
from gpufairy.web.home_use import Meter, meters
from gpufairy.web.home_warnings import Warning, warnings_of
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import clock, counted_gpus, figure_of, length
from gpufairy.web.words import UNBROKEN, Mark, about_words, mark_of, share_words

MOST_ROWS = 50  # live sessions on one page; of more the page says how many
ENDED_ROWS = 8
MOST_GPUS = 16  # drawn here; of more those of hosts where I hold something, and the rest on the cluster's page


@dataclass(frozen=True, slots=True)
class Held:
    """A session that has a seat, or is on its way out of it."""

    name: str
    href: str
    kind: str
    mark: Mark
    gpus: str
    simulated: bool
    where: str
    when: str
    why: str  # where its state needs words
    meters: tuple[Meter, ...]


@dataclass(frozen=True, slots=True)
class Waiter:
    name: str
    href: str
    mark: Mark
    gpus: str
    why: str
    when: str
    helps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    id: str
    name: str
    mark: Mark
    why: str
    ago: str
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
    warnings: tuple[Warning, ...]
    advice: tuple[Said, ...]
    held: tuple[Held, ...]
    waiters: tuple[Waiter, ...]
    more: int
    hosts: tuple[Host, ...]
    hidden_gpus: int  # on the cluster's page
    ended: tuple[Ended, ...]
    again: Ended | None  # what was started last and is over
    disk: DiskBlock | None = None  # None: not known


async def home(house: House, user: str) -> Home:
    ended = await house.store.sessions.page(owner=user, states=(Phase.ENDED,), name=None, limit=ENDED_ROWS, after=None)
    advice = await advice_of_user(house, user)
    now, cluster = house.clock(), house.cluster()
    active = sorted((s for s in house.book.active.values() if s.owner == user), key=lambda s: s.number)
    queued = [*house.book.queues.get(user, ()), *(s for s in house.book.held_back.values() if s.owner == user)]
    shown_active, shown_queued = active[:MOST_ROWS], queued[: max(0, MOST_ROWS - len(active))]
    waits = {session.id: wait for session in shown_queued if (wait := wait_of(house, session)) is not None}
    samples = {sample.node: sample for sample in house.watch.samples()}
    first_wait = next(iter(waits.values()), None)
    rooms = cluster.rooms()
    free, gpus = free_gpus(rooms), sum(len(node.gpus) for node in cluster.nodes)
    drawn = drawn_hosts(house, cluster, rooms, user)
    rows = tuple(ended_row(session, now) for session in sorted(ended, key=lambda s: s.ended_at or s.since, reverse=True))
    return Home(
        answer=answer(active, len(queued), first_wait, now),
        next_step=next_step([*active, *queued], first_wait, free, gpus),
        free=free,
        gpus=gpus,
        running=sum(session.phase is Phase.RUNNING for session in cluster.holding),
        waiting=house.book.waiting(),
        warnings=tuple(one for session in shown_active for one in warnings_of(house, session, now)),
        advice=advice,
        held=tuple(held_row(session, samples, now) for session in shown_active),
        waiters=tuple(waiter_row(session, waits.get(session.id), now) for session in shown_queued),
        more=len(active) + len(queued) - len(shown_active) - len(shown_queued),
        hosts=drawn,
        hidden_gpus=gpus - sum(len(host.bars) for host in drawn),
        ended=rows,
        again=again_of(house, user, ended, rows),
        disk=disk_block(house, user),
    )


def free_gpus(rooms: Mapping[str, Room]) -> str:
    return figure_of(sum(gpu.free_parts for room in rooms.values() for gpu in room.gpus) / PARTS)


def drawn_hosts(house: House, cluster: Cluster, rooms: Mapping[str, Room], user: str) -> tuple[Host, ...]:
    if sum(len(room.gpus) for room in rooms.values()) > MOST_GPUS:
        mine = {session.seat.node for session in cluster.holding if session.owner == user and session.seat is not None}
        rooms = {name: room for name, room in rooms.items() if name in mine}
    return tuple(hosts(cluster, rooms, house.watch.readings(), user)) if rooms else ()


def answer(active: Sequence[Session], waiting: int, first_wait: Wait | None, now: datetime) -> str:
    """The question one came with: what do I hold, what waits, until when."""
    if not active and not waiting:
        return _("You hold nothing, and nothing of yours waits.")
    held = holding_words(active)
    if not waiting:
        return _("{held}. Nothing of yours waits.").format(held=held)
    start = first_wait.forecast_start if first_wait is not None else None
    subject = ngettext("{count} session waits", "{count} sessions wait", waiting).format(count=waiting).replace(" ", UNBROKEN, 1)
    if start is None:
        return _("{held}. {waiting}.").format(held=held, waiting=subject)
    return _("{held}. {waiting}: the first about {time} more.").format(held=held, waiting=subject, time=about_words(start - now))


def holding_words(active: Sequence[Session]) -> str:
    parts = sum(session.seat.gpu_parts for session in active if session.seat is not None)
    if not active:
        return _("You hold nothing yet")
    sessions = ngettext("{count} session", "{count} sessions", len(active)).format(count=len(active)).replace(" ", UNBROKEN, 1)
    if parts < PARTS // 100:
        return _("You hold no GPU in {sessions}").format(sessions=sessions)
    return _("You hold {gpus} in {sessions}").format(gpus=counted_gpus(parts / PARTS), sessions=sessions)


def next_step(mine: Sequence[Session], first_wait: Wait | None, free: str, gpus: int) -> str:
    """A sentence of core where somebody waits, who is told what would help."""
    if first_wait is not None and first_wait.next_step:
        return first_wait.next_step
    there = ngettext("{free} of {count} GPU is free now.", "{free} of {count} GPUs are free now.", gpus).format(free=free, count=gpus)
    return there if mine else " ".join((there, _("Start something: it takes a minute.")))


def held_row(session: Session, samples: Mapping[str, NodeSample], now: datetime) -> Held:
    seat = session.seat
    running = session.phase is Phase.RUNNING
    return Held(
        name=session.name,
        href=f"/sessions/{session.name}",
        kind=session.kind,
        mark=mark_of(session),
        gpus=share_words(session.request.share) if seat is None else held_words(seat),
        simulated=seat is not None and any(gpu.simulated for gpu in seat.gpus),
        where="" if seat is None else seat.node,
        when=when(session, now),
        why="" if running and not session.idle_step else why_now(session, None),
        meters=meters(session, samples) if running else (),
    )


def held_words(seat: Seat) -> str:
    profiles = [gpu.profile for gpu in seat.gpus if gpu.profile]
    if profiles:
        return f"MIG {', '.join(profiles)}"
    return counted_gpus(seat.gpu_parts / PARTS) if seat.gpus else _("no GPU")


def when(session: Session, now: datetime) -> str:
    since = _("for {time}").format(time=length(now - session.since))
    end = session.expected_end
    return since if end is None else _("{since}, ends by {clock}").format(since=since, clock=clock(end, now))


def waiter_row(session: Session, wait: Wait | None, now: datetime) -> Waiter:
    gpus = share_words(session.request.share)
    helps = () if wait is None else wait.helps
    return Waiter(session.name, f"/sessions/{session.name}", mark_of(session), gpus, why_now(session, wait), start_words(wait, now), helps)


def start_words(wait: Wait | None, now: datetime) -> str:
    if wait is None:
        return ""
    place = "" if wait.place is None else _("place {place} in line").format(place=wait.place)
    return "; ".join(part for part in (forecast_words(wait, now), place) if part)


def ended_row(session: Session, now: datetime) -> Ended:
    ago = "" if session.ended_at is None else _("{time} ago").format(time=length(now - session.ended_at))
    simulated = session.seat is not None and any(gpu.simulated for gpu in session.seat.gpus)
    return Ended(session.id, session.name, mark_of(session), session.why, ago, share_words(session.request.share), simulated)


def again_of(house: House, user: str, ended: Sequence[Session], rows: Sequence[Ended]) -> Ended | None:
    """The newest that is over and whose name is free: it is started again under the same."""
    newest = next((session.id for session in ended if not house.book.is_taken(user, session.name)), None)
    return next((row for row in rows if row.id == newest), None)
