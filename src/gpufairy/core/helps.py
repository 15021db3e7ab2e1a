"""Helps: what somebody who waits could ask for instead and start at once. Each is tried in the room there is; the least change first."""
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.core.cluster import Cluster
from gpufairy.core.plan import asking_of, fit_beside, seat_for
from gpufairy.core.promise import Promise
from gpufairy.core.quota import Allowances
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import PARTS, Share, ShareKind
from gpufairy.core.timeline import SHORT

MOST = 4  # ways out that are told: whoever reads more of them reads none
MOST_SMALLER = 8  # numbers of GPUs that are tried
STEP = timedelta(minutes=5)  # limits are offered in such steps: nobody asks for 3 h 17 min
PARTS_OF_ONE = (PARTS // 2, PARTS // 4)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a try is made in."""

    cluster: Cluster
    rooms: Mapping[str, Room]
    promises: tuple[Promise, ...]  # those of others
    now: datetime


@dataclass(frozen=True, slots=True)
class Way:
    """One way out. Of several with the same `change` the first that works is told."""

    change: str
    request: Request
    words: str


def helps(session: Session, scene: Scene) -> tuple[str, ...]:
    """What would start now, in words."""
    if session.request.gang is not None:
        return fewer_together(session, scene)
    told: dict[str, str] = {}
    for way in ways(session, scene):
        if len(told) == MOST:
            break
        if way.change not in told and (seat := seat_now(replace(session, request=way.request), scene)) is not None:
            told[way.change] = way.words.format(kind=kind_of(seat))
    return tuple(told.values())


def ways(session: Session, scene: Scene) -> Iterator[Way]:
    asked = session.request
    for limit in limits_that_pass(session, scene):
        yield Way("time", replace(asked, time_limit=limit), f"With --time {duration_option(limit)} it would start now.")
    if asked.gpu_kind is not None:
        yield Way("kind", replace(asked, gpu_kind=None), "On {kind} it would start now: leave out --gpu-kind.")
    if asked.pool is not None:
        yield Way("pool", replace(asked, pool=None), "In another pool it would start now: leave out --pool.")
    if asked.cpus_milli is not None or asked.memory_bytes is not None:
        usual = replace(asked, cpus_milli=None, memory_bytes=None)
        yield Way("cpus", usual, "With the CPUs and memory that go with its GPUs it would start now: leave out --cpus and --memory.")
    if not asked.preemptible:
        guest = replace(asked, preemptible=True)
        yield Way("guest", guest, "With --preemptible it would start now, and go back into the queue when the place is wanted.")
    for share in smaller(asked.share):
        yield Way("share", replace(asked, share=share), f"With --gpus {share} it would start now.")


def limits_that_pass(session: Session, scene: Scene) -> list[timedelta]:
    """Limits with which it would be gone before those with a promise want the room; none that its past runs would break."""
    asked, known = session.request.time_limit, scene.cluster.run_times.of(session.owner, session.request.image)
    until = [SHORT if one.start is None else (one.start - scene.now) // STEP * STEP for one in scene.promises]
    return [
        limit for limit in sorted(set(until), reverse=True)
        if limit >= STEP and (asked is None or limit < asked) and (known is None or known.typical <= limit)
    ]  # fmt: skip


def smaller(share: Share) -> Iterator[Share]:
    """Less of the same, the most first; of whole GPUs also a part of one."""
    whole = share.whole_gpus
    for count in range(whole - 1, max(0, whole - 1 - MOST_SMALLER), -1):
        yield Share(ShareKind.WHOLE, count * PARTS)
    if whole:
        yield from (Share(ShareKind.FRACTION, parts) for parts in PARTS_OF_ONE)
    elif share.kind in (ShareKind.FRACTION, ShareKind.FGPU):
        yield from (Share(share.kind, share.parts // part) for part in (2, 4) if share.parts >= PARTS // 10 * part)


def seat_now(session: Session, scene: Scene) -> Seat | None:
    """As planning would, had it asked for this."""
    allowances = allowances_of(scene)
    if allowances.refusal_anywhere(session) is not None:
        return None
    asking = asking_of(session, scene.cluster, scene.now)
    asking = replace(asking, closed={**asking.closed, **allowances.closed(session)})
    seat = seat_for(session.request, scene.rooms.values(), scene.promises, scene.now, asking)
    return seat if isinstance(seat, Seat) and allowances.refusal(session, seat) is None else None


def allowances_of(scene: Scene) -> Allowances:
    cluster = scene.cluster
    return Allowances(cluster.quotas, cluster.holding, cluster.week, scene.now, cluster.nodes)


def fewer_together(session: Session, scene: Scene) -> tuple[str, ...]:
    """Of those who start together, how many would now."""
    group = scene.cluster.together(session)
    fits = seated_in_turn(group, scene)
    if not 0 < fits < len(group):
        return ()
    return (f"{fits} of the {len(group)} that start together would start now: ask for --count {fits}.",)


def seated_in_turn(group: Sequence[Session], scene: Scene) -> int:
    """How many find a seat beside each other."""
    cluster, rooms = scene.cluster, {name: room.copy() for name, room in scene.rooms.items()}
    promises = [replace(one, spares={name: room.copy() for name, room in one.spares.items()}) for one in scene.promises]
    allowances = allowances_of(scene)
    for place, member in enumerate(group):
        asking = asking_of(member, cluster, scene.now)
        answers = (fit_beside(member.request, room, promises, scene.now, asking) for room in rooms.values())
        seat = next((answer for answer in answers if isinstance(answer, Seat)), None)
        if seat is None or allowances.refusal(member, seat) is not None:
            return place
        allowances.placed(member, seat)
        spares = (one.spare_on(seat.node, asking.stay, scene.now) for one in promises)
        for room in (rooms[seat.node], *(spare for spare in spares if spare is not None)):
            room.take(seat)
    return len(group)


def others(promises: Iterable[Promise], group: Sequence[Session]) -> tuple[Promise, ...]:
    """Whoever asks for something else gives up its own."""
    mine = {session.id for session in group}
    return tuple(one for one in promises if one.session.id not in mine)


def kind_of(seat: Seat) -> str:
    return ", ".join(sorted({part.kind for part in seat.gpus if part.kind})) or "another GPU"


def duration_option(time: timedelta) -> str:
    """As `--time` takes it: `50m`, `2h`, `1h30m`, `2d`."""
    minutes = int(time.total_seconds() // 60)
    days, hours = divmod(minutes // 60, 24)
    parts = ((days, "d"), (hours, "h"), (minutes % 60, "m"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount)
