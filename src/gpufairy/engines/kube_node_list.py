"""The nodes of a cluster, each made anew only when something about it has changed: thousands are asked for every other second."""
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from gpufairy.core.node import Gpu, Node
from gpufairy.engines.clouds.contract import OURS
from gpufairy.engines.kube_gpus import KindsKnown
from gpufairy.engines.kube_nodes import NodeSeen, NodeUse, PodUse, node_of, selected
from gpufairy.engines.pod_settings import PodSettings

SEEN_EVERY = timedelta(seconds=30)  # how finely it is told when nodes were seen last: each time it moves, all of them are another value
GIVEN_TWICE = "a device plugin gives out its GPUs, too: pods of both may come upon the same one. Take that plugin off this node"
EPOCH = datetime.fromisoformat("2020-01-01T00:00:00+00:00")


class NodeList:
    def __init__(self, settings: PodSettings, kinds: KindsKnown) -> None:
        self._settings, self._kinds = settings, kinds
        self._seen: dict[str, NodeSeen] = {}
        self._used: dict[str, NodeUse] = {}
        self._made: dict[str, Node] = {}
        self._stale: set[str] = set()  # to be made anew
        self._listed: list[Node] = []
        self._seen_at: datetime | None = None
        self.version = 0  # goes up with each change
        # GPUs that somebody knows one by one, in the place of those that are only counted; None: nobody does.
        self.known_gpus: Callable[[str], tuple[Gpu, ...] | None] = lambda _: None

    def node_changed(self, old: NodeSeen | None, new: NodeSeen | None) -> None:
        if old == new:
            return
        if old is not None and new is None:
            self._seen.pop(old.name, None)
            self.changed(old.name)
        if new is not None:
            self._seen[new.name] = new
            self.changed(new.name)

    def use_changed(self, old: PodUse | None, new: PodUse | None) -> None:
        for use, sign in ((old, -1), (new, 1)) if old != new else ():
            if use is not None:
                self._used.setdefault(use.node, NodeUse()).add(use, sign)
                self.changed(use.node)

    def changed(self, node: str) -> None:
        """It, or something that is told of its GPUs elsewhere."""
        self.version += 1
        self._stale.add(node)

    def nodes(self, seen_at: datetime) -> list[Node]:
        """By name. The same values as the last time, where nothing has changed."""
        seen_at -= (seen_at - EPOCH) % SEEN_EVERY
        moved, self._seen_at = seen_at != self._seen_at, seen_at
        if moved:
            made = ((name, node) for name, node in self._made.items() if name not in self._stale and self._seen[name].ready)
            self._made.update({name: replace(node, seen_at=seen_at) for name, node in made})
        for name in self._stale:
            self._make(name, seen_at)
        if moved or self._stale:
            self._listed = [self._made[name] for name in sorted(self._made)]
        self._stale.clear()
        return list(self._listed)

    def _make(self, name: str, seen_at: datetime) -> None:
        seen, used = self._seen.get(name), self._used.get(name)
        if seen is None or not selected(seen, self._settings.node_selector):
            self._made.pop(name, None)
            return
        # Who waited for a node of a pool asked for GPUs of its device plugin: those must not be given out a second time by other means.
        known = None if OURS in seen.labels else self.known_gpus(name)
        node = node_of(seen, used or NodeUse(), self._settings, self._kinds, seen_at)
        if known is not None:
            node = replace(node, gpus=known, state_why=node.state_why or (GIVEN_TWICE if node.gpus else ""))
        self._made[name] = node
