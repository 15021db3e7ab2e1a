"""What agents read of cards, told of the places that sessions hold, on nodes whose GPUs are only counted."""
from collections.abc import Callable, Iterable, Mapping

from gpufairy.core.counted import at_places, card_places, is_counted
from gpufairy.core.node import Node
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.session import Session


class CountedGpus:
    def __init__(self, session_of: Callable[[str], Session | None]) -> None:
        self._session_of = session_of
        self._nodes: Mapping[str, Node] = {}
        self._at: dict[str, dict[str, str]] = {}  # by node and card

    def look(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}

    def told(self, sample: NodeSample) -> NodeSample:
        node = self._nodes.get(sample.node)
        counted = [] if node is None else [gpu.uuid for gpu in node.gpus if is_counted(gpu.uuid) and gpu.mig is None]
        if not counted:
            return sample
        before = self._at.get(sample.node, {})
        found = card_places(sample, counted, self._held(sample), before)
        # A card that is lost keeps its place: it is that one that nobody is to be given.
        self._at[sample.node] = {card: place for card, place in before.items() if place not in found.values()} | found
        return at_places(sample, self._at[sample.node])

    def _held(self, sample: NodeSample) -> dict[str, set[str]]:
        found = {}
        for session_id in {process.owner.session_id for process in sample.processes}:
            session = None if session_id is None else self._session_of(session_id)
            if session is not None and session.seat is not None:
                found[session.id] = {gpu.uuid for gpu in session.seat.gpus}
        return found
