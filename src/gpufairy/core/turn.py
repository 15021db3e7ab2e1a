"""Whose turn it is: priority first, then who has had least of late, then who came first.

What an owner has had is measured in GPU-equivalents: those held now, plus the recent average, which fades with a half-life.
A seat is charged for the scarcest thing it takes: half of a cluster's CPUs are charged as half of its GPUs, because nobody can use those.
"""
import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from gpufairy.core.cluster import Cluster, Totals
from gpufairy.core.ledger import faded, faded_hold
from gpufairy.core.session import Seat, Session
from gpufairy.core.share import PARTS

LONGEST_WAIT_S = 300  # between two tries of a session that an engine refused or that failed and may try again
SKIPS = 200  # sessions of one owner passed over in one look for the next: bounds a pass over a very long queue


def charge_parts(seat: Seat, totals: Totals) -> int:
    by_cpu = seat.cpus_milli * totals.gpu_parts // totals.cpus_milli
    by_memory = seat.memory_bytes * totals.gpu_parts // totals.memory_bytes
    return max(seat.gpu_parts, by_cpu, by_memory)


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


def ready_at(session: Session) -> datetime:
    """A session that was refused or failed before waits a little longer each time."""
    tries = session.refusals + session.attempt - 1
    if tries <= 0:
        return session.submitted_at
    return session.since + timedelta(seconds=min(2.0 ** (tries - 1), LONGEST_WAIT_S))


class Line:
    """The waiting, in the order of their turns. Tell it who was placed: that changes whose turn is next.

    A refusal sends the owner to the back of their priority's round, so that one owner's long queue
    of sessions that do not fit hides nobody else's from a pass.
    """

    def __init__(self, cluster: Cluster, now: datetime, passed_over: Callable[[Session], bool] = lambda session: False) -> None:
        self._queues = cluster.waiting
        self._had = standings(cluster, now)
        self._next = dict.fromkeys(cluster.waiting, 0)
        self._rounds = dict.fromkeys(cluster.waiting, 0)
        self._passed_over = passed_over
        self._now = now
        self._heap: list[tuple[int, int, float, int, str]] = []
        for owner in cluster.waiting:
            self._line_up(owner)

    def __iter__(self) -> Iterator[Session]:
        while self._heap:
            owner = heapq.heappop(self._heap)[-1]
            session = self._queues[owner][self._next[owner]]
            self._next[owner] += 1
            yield session
            self._line_up(owner)

    def placed(self, session: Session, charge: int) -> None:
        self._had[session.owner] = self._had.get(session.owner, 0.0) + charge / PARTS

    def refused(self, session: Session) -> None:
        self._rounds[session.owner] += 1

    def _line_up(self, owner: str) -> None:
        queue, at = self._queues[owner], self._next[owner]
        last = min(len(queue), at + SKIPS)
        while at < last and (ready_at(queue[at]) > self._now or self._passed_over(queue[at])):
            at += 1
        self._next[owner] = at
        if at < last:
            head = queue[at]
            heapq.heappush(self._heap, (-head.priority, self._rounds[owner], self._had.get(owner, 0.0), head.number, owner))


def in_order(cluster: Cluster, now: datetime, most: int) -> list[Session]:
    """The first `most` of the line, as if each were given a GPU's worth in its turn: for places and forecasts."""
    line, order = Line(cluster, now), []
    for session in line:
        order.append(session)
        if len(order) >= most:
            break
        line.placed(session, session.request.share.parts or PARTS)
    return order


def sorted_queue(sessions: Sequence[Session]) -> list[Session]:
    return sorted(sessions, key=queue_key)


def queue_key(session: Session) -> tuple[int, int]:
    return -session.priority, session.number


