"""Nodes as the engine tells of them, with what admins have said of their GPUs. Kept while neither changes: there may be thousands."""
from dataclasses import replace

from gpufairy.control.cuts import Cuts
from gpufairy.control.shares import Shares
from gpufairy.core.node import Node


class RuledNodes:
    def __init__(self, cuts: Cuts, shares: Shares) -> None:
        self._cuts, self._shares = cuts, shares
        self._ruled: dict[str, tuple[Node, Node]] = {}  # by name: as found, and as ruled
        self._as_of: object = None

    def all(self, found: list[Node]) -> list[Node]:
        as_of = self._cuts.version, self._cuts.auto, self._shares.version
        if as_of != self._as_of:
            self._as_of, self._ruled = as_of, {}
        known, self._ruled = self._ruled, {}
        for node in found:
            self._ruled[node.name] = self._kept(node, known.get(node.name))
        return [ruled for _, ruled in self._ruled.values()]

    def _kept(self, node: Node, before: tuple[Node, Node] | None) -> tuple[Node, Node]:
        if before is not None and before[0] is node:
            return before
        if before is not None and before[0].gpus is node.gpus:  # seen again, say
            return node, replace(node, gpus=before[1].gpus)
        return node, self._shares.applied(self._cuts.applied(node))
