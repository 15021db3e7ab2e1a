"""Every node's room, exact and as arrays, kept in step by the difference alone: nodes that came, went or changed, seats taken and left."""
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.core.cluster import Totals
from gpufairy.core.floor_arrays import FloorArrays, layout_of
from gpufairy.core.floor_leavers import NOWHERE, Leavers
from gpufairy.core.node import Node
from gpufairy.core.room import Room
from gpufairy.core.session import Seat, Session


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody who was given a seat in this pass."""

    session: Session
    seat: Seat
    is_lent: bool = False

    def running(self, now: datetime) -> Session:
        """As if it had started."""
        return replace(self.session, seat=self.seat, placed_at=now, started_at=now)


Sitter = Session | Held


class FloorRooms:
    def __init__(self) -> None:
        self.by_name: dict[str, Room] = {}
        self._nodes: Sequence[Node] = ()
        self._sitting: dict[str, Sitter] = {}
        self._on: dict[str, dict[str, Sitter]] = {}  # by node, also those that are not there now
        self._lay_out()

    def follow(self, nodes: Sequence[Node], holding: Sequence[Session]) -> bool:
        """Whether the arrays were laid out anew: then no place in them means what it did."""
        self._is_laid_out = nodes is self._nodes or self._follow_nodes(nodes)
        self._follow_holding(holding)
        if self._is_laid_out:
            return False
        self._lay_out()
        return True

    def _follow_holding(self, holding: Sequence[Session]) -> None:
        seated = 0
        for session in holding:
            if session.seat is not None:
                seated += 1
                if self._sitting.get(session.id) is not session:
                    self._follow_one(session, session.seat)
        if len(self._sitting) > seated:
            for gone in self._sitting.keys() - {session.id for session in holding if session.seat is not None}:
                self.leave(gone)

    def _follow_one(self, session: Session, seat: Seat) -> None:
        known = self._sitting.get(session.id)
        if known is not None and known.is_lent == session.is_lent and (known.seat is seat or known.seat == seat):
            self._sitting[session.id] = self._on[seat.node][session.id] = session
            if self._is_laid_out:
                self.leavers.go(session.id)  # its time may have changed
                self.leavers.come(self._place.get(seat.node, NOWHERE), session, seat)
            return
        if known is not None:
            self.leave(session.id)
        self._sit(session, session, seat)

    def take(self, session: Session, seat: Seat) -> None:
        """In this pass. Unless it is among those who hold seats by then, it has left when others are followed."""
        self._sit(Held(session, seat), session, seat)

    def _sit(self, sitter: Sitter, session: Session, seat: Seat) -> None:
        self._sitting[session.id] = self._on.setdefault(seat.node, {})[session.id] = sitter
        if self._is_laid_out:
            self.leavers.come(self._place.get(seat.node, NOWHERE), session, seat)
        self._change(sitter, seat, 1)

    def leave(self, session_id: str) -> None:
        sitter = self._sitting.pop(session_id)
        if self._is_laid_out:
            self.leavers.go(session_id)
        if sitter.seat is None:
            return
        beside = self._on[sitter.seat.node]
        del beside[session_id]
        if not beside:
            del self._on[sitter.seat.node]
        self._change(sitter, sitter.seat, -1)

    def _change(self, sitter: Sitter, seat: Seat, sign: int) -> None:
        room = self.by_name.get(seat.node)
        if room is not None:
            room.sit(sitter, sign)
        if room is not None and self._is_laid_out:
            places = [place for part in seat.gpus if (place := room.place_of(part)) is not None]
            self.arrays.note_seat(self._place[seat.node], room, places)

    def sitting_on(self, node: str, now: datetime) -> list[Session]:
        return [one.running(now) if isinstance(one, Held) else one for one in self._on.get(node, {}).values()]

    def _follow_nodes(self, nodes: Sequence[Node]) -> bool:
        """Whether the arrays still have the right layout; if not, they wait until all have sat down."""
        self._nodes = nodes
        laid_out_anew, changed = [node.name for node in nodes] != list(self.by_name), []
        for node in nodes:
            room = self.by_name.get(node.name)
            if room is None or room.node is node:
                continue
            if is_as_before(node, room.node):
                room.node = node  # only seen again
                continue
            laid_out_anew = laid_out_anew or layout_of(node) != layout_of(room.node)
            self.by_name[node.name] = self._room_of(node)
            changed.append(node.name)
        if laid_out_anew:
            in_order = {node.name: self.by_name.get(node.name) or self._room_of(node) for node in nodes}
            self.by_name.clear()  # the same mapping for good: others look at it
            self.by_name.update(in_order)
            return False
        for name in changed:
            place = self._place[name]
            self.rows[place] = self.by_name[name]
            self.arrays.note(place, self.by_name[name])
        return True

    def _room_of(self, node: Node) -> Room:
        room = Room.empty(node)
        for sitter in self._on.get(node.name, {}).values():
            room.sit(sitter)
        return room

    def _lay_out(self) -> None:
        """By name: so that equals are always met in the same order, whoever came first."""
        self._is_laid_out = True
        self.rows = [self.by_name[name] for name in sorted(self.by_name)]
        self._place = {room.node.name: place for place, room in enumerate(self.rows)}
        self.arrays = FloorArrays(self.rows)
        self.leavers = Leavers()
        for sitter in self._sitting.values():
            if sitter.seat is not None:
                session = sitter.session if isinstance(sitter, Held) else sitter
                self.leavers.come(self._place.get(sitter.seat.node, NOWHERE), session, sitter.seat)
        self.totals = Totals.of([room.node for room in self.rows])
        self.row_of_gpu = {gpu.gpu.uuid: place for place, room in enumerate(self.rows) for gpu in room.gpus}


def is_as_before(node: Node, before: Node) -> bool:
    """In all that planning looks at, and tells."""
    return (
        node.gpus == before.gpus and node.state is before.state and node.state_why == before.state_why
        and node.pool == before.pool and node.cpus_milli == before.cpus_milli and node.memory_bytes == before.memory_bytes
    )  # fmt: skip
