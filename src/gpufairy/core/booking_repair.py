"""What becomes of a booking whose GPUs are no longer there or not in use: what is wrong with it, and what takes their place."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.core.booking import Booking
from gpufairy.core.booking_choice import BookingAsk, best, may_disturb, offers
from gpufairy.core.node import Node, NodeState
from gpufairy.core.session import Session

GONE = "is no longer there"
OUT_OF_USE = (NodeState.DRAINED, NodeState.FAULTY)  # not SILENT: no answer is never "gone"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a GPU is, or was when it was last seen."""

    node: str
    index: int
    kind: str
    pool: str | None
    simulated: bool = False

    def __str__(self) -> str:
        return f"{self.node} GPU {self.index}"


def places(nodes: Sequence[Node]) -> dict[str, Place]:
    return {gpu.uuid: Place(node.name, gpu.index, gpu.kind, node.pool, gpu.simulated) for node in nodes for gpu in node.gpus}


def troubles(booking: Booking, nodes: Sequence[Node], known: Mapping[str, Place]) -> dict[str, str]:
    """Of its GPUs those that nobody could use, each with why, in words."""
    state = {gpu.uuid: node.state for node in nodes for gpu in node.gpus}
    found = {}
    for gpu in booking.gpus:
        if gpu not in state:
            found[gpu] = f"{known.get(gpu, gpu)} {GONE}"
        elif state[gpu] in OUT_OF_USE:
            found[gpu] = f"{known[gpu]} is on a node that is {state[gpu]}" if gpu in known else f"{gpu} is on a node that is {state[gpu]}"
    return found


def mended(
    booking: Booking, lost: str, *, nodes: Sequence[Node], bookings: Sequence[Booking], holding: Sequence[Session],
    known: Mapping[str, Place], now: datetime,
) -> Booking | None:  # fmt: skip
    """With another GPU of the same kind and pool in the place of the lost one. None: there is none that is free of bookings.

    Whoever sits on it is owed the notice that a user's booking gives: it is no fault of theirs that the other was lost.
    """
    was = known.get(lost) or next((known[gpu] for gpu in booking.gpus if gpu in known), None)
    if was is None:
        return None  # the server was started without it: nobody knows what it was
    ask = BookingAsk(
        booking.title, booking.made_by, booking.who, 1, max(booking.start, now), booking.end, was.kind, was.pool,
    )  # fmt: skip
    taken = {gpu for one in bookings if one.overlaps(ask.start, ask.end) for gpu in one.gpus}
    free = [one for one in offers(ask, nodes, holding) if one.node.state is NodeState.READY and one.gpu.uuid not in taken]
    fewest = min((one.disturbs for one in free), default=0)
    if not free or (fewest and not may_disturb(ask, now)):
        return None
    quiet = [one for one in free if one.disturbs == fewest]
    beside = [one for one in quiet if one.node.name in {known[gpu].node for gpu in booking.gpus if gpu in known and gpu != lost}]
    chosen = best(beside or quiet, 1)[0].gpu.uuid
    return replace(booking, gpus=tuple(chosen if gpu == lost else gpu for gpu in booking.gpus))
