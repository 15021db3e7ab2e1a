"""Adopt: sessions known by their labels alone, which say how they began. Who was shrunk or lent since shows by who sits beside them."""
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from gpufairy.core.cluster import Totals
from gpufairy.core.node import Node
from gpufairy.core.reclaim import shrunk
from gpufairy.core.room import Room, rooms
from gpufairy.core.session import GpuSeat, IdleStep, Seat, Session
from gpufairy.core.turn import charge_parts


def as_others_sit(found: Sequence[Session], holding: Iterable[Session], nodes: Sequence[Node], now: datetime) -> list[Session]:
    """Those found, beside who holds a seat already: as far as can be told nobody sits on another's parts, and no guest without a host."""
    after = {session.id: session for session in found}
    if not after:  # as in nearly every look, and there may be thousands of nodes
        return []
    known = [one for one in holding if one.id not in after]
    free, totals = rooms(nodes, [*known, *found]), Totals.of(nodes)
    # The oldest first: the others came after it gave way.
    for session in sorted(found, key=lambda one: (one.placed_at or one.since, one.id)):
        room = None if session.seat is None else free.get(session.seat.node)
        if room is None or session.seat is None or not may_give_way(session.seat):
            continue
        if any(is_crowded(part, room, guest=False) for part in session.seat.gpus):
            seat = shrunk(session.seat)
            given = replace(session, seat=replace(seat, charge_parts=charge_parts(seat, totals)))
        elif any(is_crowded(part, room, guest=True) for part in session.seat.gpus):
            given = replace(session, idle_step=IdleStep.LENT, idle_since=now)
        else:
            continue
        room.sit(session, -1)
        room.sit(given)
        after[session.id] = given
    return [after[session.id] for session in found]


def may_give_way(seat: Seat) -> bool:
    return not any(part.profile or part.borrowed or part.enforced for part in seat.gpus)


def is_crowded(part: GpuSeat, room: Room, *, guest: bool) -> bool:
    """On that GPU more is held than there is: by those with seats of their own, or with the guests, who sit in what somebody lends."""
    place = room.place_of(part)
    if place is None:
        return False
    gpu = room.gpus[place]
    if guest:
        return gpu.open_parts(guest=True) < 0 or gpu.open_memory_bytes(guest=True) < 0
    return gpu.unheld_parts < 0 or gpu.unheld_memory_bytes < 0
