"""Whose turn it is: priority first, then who has had least of late, then who came first.

What an owner has had is measured in GPU-equivalents: those held now, plus the recent average, which fades with a half-life.
A seat is charged for the scarcest thing it takes: half of a cluster's CPUs are charged as half of its GPUs, because nobody can use those.
"""
import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import datetime
from itertools import islice

from gpufairy.core.cluster import Cluster, Totals
from gpufairy.core.fit import fit
from gpufairy.core.ledger import faded, faded_hold
from gpufairy.core.queue import Shape, shape, sitting
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import PARTS

LEAST_LOOKS = 10  # at an owner's shapes that do not fit, in one pass, however many owners wait: nobody is passed over unseen


def charge_parts(seat: Seat, totals: Totals) -> int:
    by_cpu = seat.cpus_milli * totals.gpu_parts // totals.cpus_milli
    by_memory = seat.memory_bytes * totals.gpu_parts // totals.memory_bytes
    return max(seat.scarcest_gpu_parts, by_cpu, by_memory)


def standings(cluster: Cluster, now: datetime) -> dict[str, float]:
    """What each owner has had, in GPUs: held now + average of late. Least goes first."""
    half_life = cluster.policy.half_life
    tau_s = half_life.total_seconds() / math.log(2)
    had: dict[str, float] = defaultdict(float)
    for owner, usage in cluster.usage.items():
        had[owner] += faded(usage, now, half_life) / tau_s
    for session in cluster.holding:
        if session.seat is None:
            continue
        since = session.placed_at or session.since
        had[session.owner] += session.seat.charge_parts / PARTS
        had[session.owner] += faded_hold(session.seat.charge_parts, since, now, now, half_life) / tau_s
    return had


class Line:
    """The waiting, in the order of their turns. Tell it who was placed: that changes whose turn is next.

    Tell it who was refused, too: an owner is looked at only so often in one pass, so that one owner's long queue
    of sessions that do not fit takes nobody else's looks. A seat uses none up: there, room is the bound.
    """

    def __init__(self, cluster: Cluster, now: datetime, refused_for: Callable[[str], Container[Shape]] = lambda _: ()) -> None:
        """`refused_for`: of an owner, the shapes that this pass has refused; it grows while the line is walked."""
        self._had = standings(cluster, now)
        self._looks = dict.fromkeys(cluster.waiting, max(LEAST_LOOKS, cluster.policy.depth // max(1, len(cluster.waiting))))
        self._refused = {owner: refused_for(owner) for owner in cluster.waiting}
        self._walks = {owner: queue.in_turn(now, self._refused[owner]) for owner, queue in cluster.waiting.items()}
        self._heap: list[tuple[int, float, int, str, Session, Shape]] = []  # the next of every owner
        for owner in cluster.waiting:
            self._line_up(owner)

    def __iter__(self) -> Iterator[Session]:
        while self._heap:
            *_, owner, session, asked = heapq.heappop(self._heap)
            if asked not in self._refused[owner]:  # since it lined up, another owner's of its shape may have been
                yield session
            self._line_up(owner)

    def placed(self, session: Session, charge: int) -> None:
        self._had[session.owner] = self._had.get(session.owner, 0.0) + charge / PARTS

    def refused(self, session: Session) -> None:
        self._looks[session.owner] -= 1

    def _line_up(self, owner: str) -> None:
        upcoming = next(self._walks[owner], None) if self._looks[owner] > 0 else None
        if upcoming is not None:
            session, asked = upcoming
            heapq.heappush(self._heap, (-session.priority, self._had.get(owner, 0.0), session.number, owner, session, asked))


def in_order(cluster: Cluster, now: datetime, most: int) -> list[Session]:
    """The first `most` of the line, as if each were given what it asks for in its turn: for places and forecasts."""
    line, order = Line(cluster, now), []
    empty, totals = [Room.empty(node) for node in cluster.nodes], Totals.of(cluster.nodes)
    charges: dict[Shape, int] = {}  # by all of a shape but its time
    for session in islice(line, most):
        order.append(session)
        asked = sitting(shape(session.request))
        if asked not in charges:
            charges[asked] = likely_charge(session.request, empty, totals)
        line.placed(session, charges[asked])
    return order


def likely_charge(request: Request, empty: Iterable[Room], totals: Totals) -> int:
    """What it would be charged for the first seat that an empty cluster has for it; a GPU's worth if there is none."""
    seats = (answer for room in empty if isinstance(answer := fit(request, room), Seat))
    return max((charge_parts(seat, totals) for seat in islice(seats, 1)), default=PARTS)
