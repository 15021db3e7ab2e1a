"""Arrive: who had a seat on a node that was only coming sits on a real one now, wherever the engine's own scheduler has put it.

That scheduler may have put it where we had just given the place to somebody else, who is not there yet: who is there has the place, and the
other goes back into the queue. Nothing is done here: the answer is Orders.
"""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.core.cluster import Policy, Totals
from gpufairy.core.fit import part_of
from gpufairy.core.lifecycle import HOLDS_GPUS, Happening, Phase
from gpufairy.core.mig_seat import best_cut, instance_on
from gpufairy.core.node import Node
from gpufairy.core.pool import pool_coming
from gpufairy.core.reconcile import Deed, Order
from gpufairy.core.room import GpuRoom, Room, rooms
from gpufairy.core.session import GpuSeat, Seat, Session, Wanted
from gpufairy.core.share import PARTS
from gpufairy.core.steps import can_be_sent, change, noted, reseat, send_back
from gpufairy.core.turn import charge_parts
from gpufairy.core.workload import Workload, WorkloadId, workload_id

ARRIVED = "arrived"  # the event


@dataclass(frozen=True, slots=True)
class Arrival:
    session: Session
    node: str


def arrived(sessions: Iterable[Session], workloads: Iterable[Workload]) -> list[Arrival]:
    """Those whose seat is on a node that was coming, and who are on a real one."""
    seen = {workload.id: workload for workload in workloads}
    found = []
    for session in sessions:
        workload = seen.get(workload_id(session))
        if session.seat is None or workload is None or not workload.bound or session.phase not in HOLDS_GPUS:
            continue
        if pool_coming(session.seat.node) is not None and pool_coming(workload.node) is None and workload.node:
            found.append(Arrival(session, workload.node))
    return found


def arrivals(
    found: Sequence[Arrival], *, holding: Iterable[Session], workloads: Iterable[Workload], nodes: Sequence[Node], now: datetime,
    policy: Policy,
) -> list[Order]:  # fmt: skip
    """`holding`: all who have seats. Who finds no place by what is known now is left as it is: the next look knows more."""
    targets = {arrival.node for arrival in found}
    held = list(holding)
    free, totals = rooms([node for node in nodes if node.name in targets], held), Totals.of(nodes)
    seen = {workload.id: workload for workload in workloads}
    orders = []
    for session, room in [(arrival.session, free[arrival.node]) for arrival in found if arrival.node in free]:
        if session.seat is None:
            continue
        seat, left, sent = seat_on(session.seat, room), room.copy(), []
        for other in not_there_yet(room.node.name, held, seen) if seat is None else ():
            left.sit(other, -1)
            sent.append(other)
            if (seat := seat_on(session.seat, left)) is not None:
                break
        if seat is None:
            continue
        for other in sent:
            held.remove(other)
            room.sit(other, -1)
            orders.append(gives_way(other, now, policy))
        room.take(seat)
        moved = noted(session, ARRIVED, now, f"its node has come: {seat.node}")
        orders.append(Order(reseat(moved, replace(seat, charge_parts=charge_parts(seat, totals)), now)))
    return orders


def stranded(
    sessions: Iterable[Session], workloads: Iterable[Workload], nodes: Iterable[Node], now: datetime, policy: Policy
) -> list[Order]:
    """Those who were given a place on a node that has gone before they were on it: they go back into the queue."""
    unbound = {workload.id for workload in workloads if workload.alive and not workload.bound}
    waiting = [one for one in sessions if one.phase is Phase.STARTING and can_be_sent(one) and workload_id(one) in unbound]
    there = {node.name for node in nodes} if waiting else set()
    orders = []
    for session in waiting:
        node = "" if session.seat is None else session.seat.node
        if node and pool_coming(node) is None and node not in there:
            why = f"node {node} went away before it had started there"
            orders.append(Order(send_back(session, now, why), Deed.STOP, workload=workload_id(session), grace=policy.stop_grace))
    return orders


def seat_on(old: Seat, room: Room) -> Seat | None:
    """As much as it had, on the GPUs of another node. None: they are not free."""
    left, gpus = room.copy(), []
    for part in old.gpus:
        found = part_on(part, left.gpus)
        if found is None:
            return None
        left.take(Seat(room.node.name, 0, 0, (found,)))
        gpus.append(found)
    return Seat(room.node.name, old.cpus_milli, old.memory_bytes, tuple(gpus))


def part_on(part: GpuSeat, gpus: Sequence[GpuRoom]) -> GpuSeat | None:
    """What stands in the way of newcomers does not concern it: it is there already."""
    if part.profile:
        cut = best_cut(part.profile, [gpu for gpu in gpus if gpu.gpu.mig is not None], {})
        return None if cut is None else instance_on(cut)
    plain = sorted((gpu for gpu in gpus if gpu.gpu.mig is None), key=lambda gpu: bool(gpu.gpu.closed and gpu.gpu.mps_stays))
    if part.parts >= PARTS:
        free = next((gpu for gpu in plain if gpu.is_free), None)
        return None if free is None else part_of(free, PARTS)
    roomy = [gpu for gpu in plain if gpu.free_parts >= part.parts and gpu.free_memory_bytes >= part.memory_bytes]
    tightest = min(roomy, key=lambda gpu: gpu.free_parts, default=None)
    return None if tightest is None else part_of(tightest, part.parts, part.memory_bytes if part.memory_parts is not None else None)


def not_there_yet(node: str, holding: Iterable[Session], seen: Mapping[WorkloadId, Workload]) -> list[Session]:
    """Those who were given a place there and are not known to have it; who came last, first."""
    waiting = [
        one
        for one in holding
        if one.seat is not None and one.seat.node == node and one.seat.gpus and one.wanted is Wanted.RUN
        and (one.phase is Phase.PLACED or (can_be_sent(one) and is_unbound(seen.get(workload_id(one)))))
    ]  # fmt: skip
    return sorted(waiting, key=lambda one: (one.placed_at or one.since, one.id), reverse=True)


def is_unbound(workload: Workload | None) -> bool:
    """One of which nothing is seen may be on its way, and then it is bound to nothing either."""
    return workload is None or not workload.bound


def gives_way(other: Session, now: datetime, policy: Policy) -> Order:
    node = "" if other.seat is None else other.seat.node
    why = f"Kubernetes gave its place on {node} to a session that had waited for a node of the pool"
    if other.phase is Phase.PLACED:
        return Order(change(other, (Happening.REFUSED, why), now=now))
    return Order(send_back(other, now, why), Deed.STOP, workload=workload_id(other), grace=policy.stop_grace)
