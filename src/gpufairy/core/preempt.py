"""Preempt: whom to send back into the queue for somebody who is entitled to the place. Least work lost first, and never in a circle.

No circle, because who may send whom away is a strict order: nobody preemptible sends anybody away, all others may send away those who
are; and where policy allows it, a higher priority a lower one. Nobody is sent away in vain: the first in line fits when they have left,
and each of them was given back in thought to see that it would not without.
"""
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from gpufairy.core.fit import is_kind, seats_together
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Node, NodeState
from gpufairy.core.promise import Promise
from gpufairy.core.room import Room
from gpufairy.core.run_time import stay_of
from gpufairy.core.session import Request, Seat, Session, Wanted
from gpufairy.core.share import PARTS
from gpufairy.core.timeline import OVERDUE

if TYPE_CHECKING:
    from gpufairy.core.cluster import Cluster

# In one pass, over all who wait: some 50 ms. The next pass goes on with who is first in line then. Many nodes tried at once, for a gang,
# count as one for every ten of them.
MOST_TRIES = 600
MOST_HEADS = 50  # who are looked at in one pass: those whose booked GPUs are lent out, then the first of every pool


class Preempt(StrEnum):
    OFF = "off"
    MARKED = "marked"  # sessions that were submitted as preemptible
    LOWER = "lower"  # those, and sessions of a lower priority


@dataclass(frozen=True, slots=True)
class Eviction:
    """One session that is to go back into the queue, and for whom."""

    victim: Session
    for_session: Session
    why: str


Unit = tuple[Session, ...]  # who leaves together: one session, or all of a gang
Closed = Mapping[str, str]  # GPUs that are not for somebody, each with why


def evictions(
    cluster: "Cluster", heads: Sequence[Session], rooms: Mapping[str, Room], now: datetime, promises: Iterable[Promise] = ()
) -> tuple[Eviction, ...]:
    """For those in `heads`, who do not fit: whom to ask to leave. `rooms`: with what this pass has placed."""
    heads = [head for head in heads if not head.request.preemptible][:MOST_HEADS]
    if not heads:
        return ()
    units = units_of(cluster)
    if not units:
        return ()
    work = Sending(cluster, rooms, units, now)
    promised = {promise.session.id: promise for promise in promises}
    for head in heads:
        work.make_room(head, promised.get(head.id))
    return tuple(work.found)


def units_of(cluster: "Cluster") -> list[Unit]:
    """All that somebody may send away. Of a gang all or nobody: what is left of it could not go on."""
    by_priority = cluster.policy.preempt is Preempt.LOWER
    gangs: dict[str, list[Session]] = {}
    for one in cluster.holding:
        if one.request.preemptible or by_priority:
            gangs.setdefault(one.request.gang or one.id, []).append(one)
    return [tuple(gang) for gang in gangs.values() if all(map(runs, gang))]


def runs(session: Session) -> bool:
    return session.phase is Phase.RUNNING and session.wanted is Wanted.RUN and session.seat is not None and session.started_at is not None


def may_send_away(head: Session, victim: Session, cluster: "Cluster", now: datetime) -> bool:
    """Of a victim that runs."""
    policy, marked = cluster.policy, victim.request.preemptible
    if marked and cluster.calendar.bookings and cluster.calendar.owed(head, victim, now):
        return True  # it sits on what is booked for the other, and came knowing that
    if policy.preempt is Preempt.OFF or (not is_guest(victim) and now - (victim.started_at or now) < policy.preempt_after):
        return False
    return marked or (policy.preempt is Preempt.LOWER and victim.priority < head.priority)


def is_guest(session: Session) -> bool:
    return session.seat is not None and any(part.borrowed for part in session.seat.gpus)


def is_leaving(session: Session, now: datetime, notice: timedelta) -> bool:
    """By itself, and about as soon as anybody who is asked to; not one that should have left long ago."""
    end = session.since if session.phase is Phase.STOPPING or session.wanted is Wanted.STOP else session.expected_end
    return end is not None and now - OVERDUE <= end <= now + notice


def lost_gpu_seconds(session: Session, now: datetime) -> float:
    """What it has computed since its start, of which nobody knows whether it was saved."""
    if session.seat is None or session.started_at is None:
        return 0.0
    return session.seat.gpu_parts / PARTS * max(0.0, (now - session.started_at).total_seconds())


def why_sent(victim: Session, head: Session) -> str:
    right = "it is preemptible" if victim.request.preemptible else f"its priority is {victim.priority}, theirs {head.priority}"
    return f"{head.owner} is first in line for what it holds, and {right}"


class Sending:
    """The scratch of one pass: rooms without those who leave anyway, and without those who are asked to."""

    def __init__(self, cluster: "Cluster", rooms: Mapping[str, Room], units: Sequence[Unit], now: datetime) -> None:
        self._cluster, self._given, self._now = cluster, rooms, now
        self._lost = {unit[0].id: sum(lost_gpu_seconds(one, now) for one in unit) for unit in units}
        self._units = sorted(units, key=lambda unit: (self._lost[unit[0].id], unit[0].id))
        self._on_node: dict[str, list[Unit]] = {}  # the nodes by the unit on them with the least to lose
        for unit in self._units:
            for node in {one.seat.node for one in unit if one.seat is not None}:
                self._on_node.setdefault(node, []).append(unit)
        self._rooms: dict[str, Room] = {}  # where anybody leaves or may be sent away; the others are as they were given
        self._gone: set[str] = set()
        self._tries_left = MOST_TRIES
        self.found: list[Eviction] = []
        for session in cluster.holding:
            if is_leaving(session, now, cluster.policy.preempt_notice):
                self._leave(session)

    def make_room(self, head: Session, promise: Promise | None) -> None:
        group, closed = self._cluster.together(head), self._closed_to(head)
        requests, alone = [one.request for one in group], len(group) == 1
        # Of one alone: elsewhere than where somebody leaves it does not fit, or it would not have come here.
        nodes = list(self._rooms) if alone else list(self._given)
        chosen: list[Unit] | None = []
        if not self._fits(requests, nodes, (), closed):
            chosen = self._cheapest(head, closed) if alone else self._fewest(requests, nodes, self._leaving_for(head, self._units), closed)
        if chosen is None:
            self._take(() if promise is None else promise.seats)  # whoever is behind it must not count on what is promised to it
            return
        for victim in (one for unit in chosen for one in unit):
            self._leave(victim)
            self.found.append(Eviction(victim, head, why_sent(victim, head)))
        self._take(seats_together(requests, self._free(self._rooms if alone else self._given), closed) or ())

    def _closed_to(self, head: Session) -> Closed:
        stay = stay_of(head, self._cluster.run_times)
        return self._cluster.calendar.closed_to(head.owner, head.team, stay.time, self._now)

    def _leaving_for(self, head: Session, units: Iterable[Unit]) -> list[Unit]:
        may_go = (one for one in units if all(member.id not in self._gone for member in one))
        return [unit for unit in may_go if all(may_send_away(head, one, self._cluster, self._now) for one in unit)]

    def _cheapest(self, head: Session, closed: Closed) -> list[Unit] | None:
        """On the node where the least is lost."""
        best: list[Unit] | None = None
        for node, there in self._on_node.items():
            if self._tries_left <= 0 or (best is not None and self._cost(best)[0] <= self._lost[there[0][0].id]):
                break  # from here on, who has the least to lose has more than all of those
            if node in self._given and could_sit(head.request, self._given[node].node):
                found = self._fewest([head.request], [node], self._leaving_for(head, there), closed)
                best = found if best is None or (found is not None and self._cost(found) < self._cost(best)) else best
        return best

    def _cost(self, units: Sequence[Unit]) -> tuple[float, int, str]:
        return sum(self._lost[unit[0].id] for unit in units), len(units), units[0][0].id

    def _fewest(self, requests: Sequence[Request], nodes: Sequence[str], units: Sequence[Unit], closed: Closed) -> list[Unit] | None:
        """So many of them, in order, that all fit; then, from the dearest down, each back on whose leaving nothing hangs."""
        if not units or not self._fits(requests, nodes, units, closed):
            return None
        enough = 1 + bisect_left(range(1, len(units)), True, key=lambda count: self._fits(requests, nodes, units[:count], closed))
        chosen = list(units[:enough])
        for unit in reversed(units[:enough]):
            rest = [other for other in chosen if other is not unit]
            if self._fits(requests, nodes, rest, closed):
                chosen = rest
        return chosen if chosen and self._tries_left >= 0 else None  # else nobody looked whether each of them is needed

    def _fits(self, requests: Sequence[Request], nodes: Sequence[str], gone: Sequence[Unit], closed: Closed) -> bool:
        """False too where there was no time to look: then nobody is sent away."""
        self._tries_left -= 1 + len(nodes) // 10
        if self._tries_left < 0:
            return False
        free = self._free(nodes)
        for session in (one for unit in gone for one in unit):
            if session.seat is not None and session.seat.node in free:
                free[session.seat.node].sit(session, -1)
        return seats_together(requests, free, closed) is not None

    def _free(self, nodes: Iterable[str]) -> dict[str, Room]:
        return {node: (self._rooms.get(node) or self._given[node]).copy() for node in dict.fromkeys(nodes) if node in self._given}

    def _own_room(self, node: str) -> Room | None:
        if node not in self._rooms and node in self._given:
            self._rooms[node] = self._given[node].copy()
        return self._rooms.get(node)

    def _leave(self, session: Session) -> None:
        self._gone.add(session.id)
        if session.seat is not None and (room := self._own_room(session.seat.node)) is not None:
            room.sit(session, -1)

    def _take(self, seats: Iterable[Seat]) -> None:
        for seat in seats:
            if (room := self._own_room(seat.node)) is not None:
                room.take(seat)


def could_sit(request: Request, node: Node) -> bool:
    """At a glance, so that nodes on which it never fits cost no try."""
    if node.state is not NodeState.READY or request.pool not in (None, node.pool):
        return False
    return sum(is_kind(gpu.kind, request.gpu_kind) for gpu in node.gpus) >= min(1, request.share.parts) * max(1, request.share.whole_gpus)
