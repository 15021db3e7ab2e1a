"""Cuts: how GPUs were cut by MIG since the server found them, and whose cut follows the queue. mig.py changes it."""
import json
from collections.abc import Mapping

from gpufairy.core.mig_cut import Cut, with_cuts
from gpufairy.core.node import Node
from gpufairy.store.meta import Meta

AUTO = "mig_auto"  # in the store's meta table: JSON, by the UUID of the GPU


class Cuts:
    def __init__(self, meta: Meta, auto: bool = False) -> None:
        """`auto`: of GPUs of which nobody has said anything."""
        self._meta, self.auto = meta, auto
        self._auto: dict[str, bool] = {}
        self._cuts: dict[str, Cut] = {}
        self.in_hand: set[str] = set()  # GPUs that are being cut
        self.version = 0  # counts up when any of this changes

    async def load(self) -> None:
        self._auto = json.loads(await self._meta.get(AUTO) or "{}")
        self.version += 1

    def applied(self, node: Node) -> Node:
        """One that is being cut is like one whose cut follows the queue: nobody is turned away at the door for what it may have soon."""
        return with_cuts(node, self._cuts, {gpu.uuid for gpu in node.gpus if self.is_auto(gpu.uuid) or gpu.uuid in self.in_hand})

    def is_auto(self, gpu: str) -> bool:
        return self._auto.get(gpu, self.auto)

    async def set_auto(self, gpus: Mapping[str, bool]) -> None:
        await self._meta.put(AUTO, json.dumps({**self._auto, **gpus}))
        self._auto.update(gpus)
        self.version += 1

    def put(self, gpu: str, cut: Cut, *, in_hand: bool = False) -> None:
        """Whoever calls this looks at the nodes again."""
        self._cuts[gpu] = cut
        self.in_hand = self.in_hand | {gpu} if in_hand else self.in_hand - {gpu}
        self.version += 1
