"""Whose turn it is: priority first, then who has had least of late over their share (teams, then users in them), then who came first.

What they have had is measured in GPU-equivalents: the recent average, which fades with a half-life, and a part of those held now. A seat
is charged for the scarcest thing it takes, as dominant resource fairness (DRF) has it: half of a cluster's CPUs are charged as half of its
GPUs, because nobody can use those.
"""
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import datetime
from itertools import islice

from gpufairy.core.cluster import Cluster, Policy, Totals
from gpufairy.core.fair_tree import FairTree
from gpufairy.core.fit import fit
from gpufairy.core.ledger import began_at, charged_to, faded, faded_hold, short_of, tau_s
from gpufairy.core.queue import Asked, Shape, shape, sitting
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import PARTS

# What is held now beside what was held on average: enough that the seats of one moment go round. With as much as the average, whole GPUs
# would decide for ever: of four, teams with shares of 3, 1 and 1 would always have 2, 1 and 1, where 2.4, 0.8 and 0.8 is theirs.
HELD_COUNTS = 0.05
LEAST_LOOKS = 10  # at an owner's shapes that do not fit, in one pass, however many owners wait: nobody is passed over unseen


def charge_parts(seat: Seat, totals: Totals) -> int:
    """The dominant share of the seat, as so many parts of GPUs."""
    by_cpu = seat.cpus_milli * totals.gpu_parts // totals.cpus_milli
    by_memory = seat.memory_bytes * totals.gpu_parts // totals.memory_bytes
    return max(seat.scarcest_gpu_parts, by_cpu, by_memory)


def standings(cluster: Cluster, now: datetime) -> dict[str, float]:
    """What each owner has had, and by `team:NAME` each team, in GPUs: the average of late, and a part of what they hold now."""
    half_life = cluster.policy.half_life
    fade_s = tau_s(half_life)
    had: dict[str, float] = defaultdict(float)
    for name, usage in cluster.usage.items():
        had[name] += faded(usage, now, half_life) / fade_s
    for session in cluster.holding:
        if session.seat is None:
            continue
        since, charge = session.placed_at or session.since, session.seat.charge_parts
        charged_s = faded_hold(charge, since, now, now, half_life)
        charged_s += short_of(cluster.policy.entry_penalty, charge, began_at(session, since), now)
        for name in charged_to(session):
            had[name] += HELD_COUNTS * charge / PARTS + charged_s / fade_s
    return had


def counts_at_once(charge: int, policy: Policy) -> float:
    """What a seat adds to its owner's standing in the moment in which it is taken, in GPUs."""
    return charge / PARTS * (HELD_COUNTS + policy.entry_penalty.total_seconds() / tau_s(policy.half_life))


class Line:
    """The waiting, in the order of their turns. Tell it who was placed: that changes whose turn is next.

    Tell it who was refused, too: an owner is looked at only so often in one pass, so that one owner's long queue
    of sessions that do not fit takes nobody else's looks. A seat uses none up: there, room is the bound.
    """

    def __init__(self, cluster: Cluster, now: datetime, refused_for: Callable[[str], Container[Asked]] = lambda _: ()) -> None:
        """`refused_for`: of an owner, what this pass has refused; it grows while the line is walked."""
        self._policy = cluster.policy
        self._looks = dict.fromkeys(cluster.waiting, max(LEAST_LOOKS, cluster.policy.depth // max(1, len(cluster.waiting))))
        self._refused = {owner: refused_for(owner) for owner in cluster.waiting}
        self._walks = {owner: queue.in_turn(now, self._refused[owner]) for owner, queue in cluster.waiting.items()}
        self._tree = FairTree(standings(cluster, now), cluster.weights)
        for owner in cluster.waiting:
            self._line_up(owner)

    def __iter__(self) -> Iterator[Session]:
        while (first := self._tree.pop()) is not None:
            if first.asked not in self._refused[first.owner]:  # since it lined up, another owner's of its shape may have been
                yield first.session
            self._line_up(first.owner)

    def placed(self, session: Session, charge: int) -> None:
        self._tree.charge(session, counts_at_once(charge, self._policy))

    def refused(self, session: Session) -> None:
        self._looks[session.owner] -= 1

    def _line_up(self, owner: str) -> None:
        upcoming = next(self._walks[owner], None) if self._looks[owner] > 0 else None
        if upcoming is not None:
            self._tree.add(*upcoming)


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
