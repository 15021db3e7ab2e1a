"""A cloud in memory that does what it is told, as far as the test lets it; and an engine on which nodes of a pool come when they are asked for."""
import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gpufairy.core.errors import FairyError
from gpufairy.core.node import Gpu, Node
from gpufairy.core.pool import Cloud, Machine, Pool, Step, coming_nodes, pool_coming
from gpufairy.core.workload import Workload, WorkloadState
from gpufairy.engines.fake import FakeEngine

GIB = 2**30
G5 = Machine("g5.xlarge", "A10", 1, 24 * GIB, 4000, 16 * GIB, 1_006_000, "AWS, June")


@dataclass
class FakeCloud:
    made: dict[str, Pool] = field(default_factory=dict)
    waits: list[str] = field(default_factory=list)  # what is said, one call after the other, before it is done
    errors: list[FairyError] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    holds: dict[str, asyncio.Event] = field(default_factory=dict)  # calls that are done when these are set

    async def machine(self, pool: Pool) -> Machine:
        return replace(G5, instance=pool.machine.instance)

    async def steps(self, pool: Pool) -> tuple[Step, ...]:
        return (Step("node group", pool.name, pool.name in self.made, {"instance": pool.machine.instance}),)

    async def make(self, pool: Pool) -> str:
        self.calls.append("make")
        if self.errors:
            raise self.errors.pop(0)
        if self.waits:
            return self.waits.pop(0)
        if "make" in self.holds:
            await self.holds["make"].wait()
        self.made[pool.name] = pool
        return ""

    async def remove(self, pool: Pool) -> str:
        self.calls.append("remove")
        if self.errors:
            raise self.errors.pop(0)
        if self.waits:
            return self.waits.pop(0)
        if "remove" in self.holds:
            await self.holds["remove"].wait()
        self.made.pop(pool.name, None)
        return ""

    async def opened(self, cloud: Cloud) -> "FakeCloud":
        return self


class GrowingEngine(FakeEngine):
    """What runs on a node that is coming waits until `node_comes`."""

    def __init__(self, real: FakeEngine, pools) -> None:
        super().__init__(real._nodes, real.containers, real.shelf)
        self._pools, self._bound = pools, {}

    async def nodes(self) -> list[Node]:
        real = await super().nodes()
        used = {one.session.seat.node for one in self.containers.running.values() if one.session.seat and pool_coming(one.session.seat.node) and one.session.id not in self._bound}
        there = lambda name: sum(node.pool == name for node in real)  # noqa: E731
        return [*real, *(node for name, pool in self._pools().items() for node in coming_nodes(pool, there(name), {one for one in used if pool_coming(one) == name}))]

    async def list_mine(self) -> list[Workload]:
        return [self._as_bound(one) for one in await super().list_mine()]

    def _as_bound(self, workload: Workload) -> Workload:
        if not pool_coming(workload.node) or not workload.alive:
            return workload
        node = self._bound.get(workload.id.session_id)
        if node is None:
            return replace(workload, state=WorkloadState.STARTING, bound=False, why="node is coming, about 3 min")
        return replace(workload, node=node)

    def node_comes(self, name: str, pool: str, session_id: str) -> None:
        gpus = tuple(Gpu(place, f"kube:{name}/gpu/{place}", "A10", 24 * GIB) for place in range(1))
        self._nodes = (*self._nodes, Node(name, 3800, 15 * GIB, gpus, pool=pool, came_at=datetime.now(UTC).replace(year=2030)))
        self._bound[session_id] = name
