"""A driver in memory that is cut, kept over restarts of the server, and a cutter on it."""
import asyncio
from dataclasses import replace
from pathlib import Path

from house_scene import Scene

from builders import GIB, NOW, a_gpu, a_node
from gpufairy.control.mig import Cutter
from gpufairy.core.errors import EngineSilent
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Gpu
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice
from gpufairy.devices.mig_journal import CutJournal
from gpufairy.devices.mig_order import CutDone, CutOrder, CutSeen, Outcome
from gpufairy.devices.mig_tables import mig_tables

TABLE = mig_tables()["A100-40GB"]
UUID = "GPU-simulated-0"


def cut(*parts: tuple[str, int]) -> tuple[MigInstance, ...]:
    return tuple(MigInstance(name, start, TABLE.profile(name).size, f"MIG-{start}") for name, start in parts)


SMALL = cut(*(("1g.5gb", start) for start in range(7)))


def a_cut_node(instances=SMALL, **fields):
    return replace(a_node(gpus=1), cpus_milli=64_000, gpus=(a_gpu(0, mig=TABLE, instances=instances, **fields),))


class FakeScissors:
    """A driver in memory, kept over restarts of the server; it waits, is silent or fails where a test says so."""

    def __init__(self, instances=SMALL) -> None:
        self.seen = CutSeen(TABLE, instances, True)
        self.go = asyncio.Event()
        self.go.set()
        self.begun = asyncio.Event()
        self.silent = False
        self.fails: str = ""
        self.orders: list[CutOrder] = []
        self.in_between = lambda: None

    def kept(self, gpu: Gpu) -> CutSeen | None:
        return None

    async def look(self, gpu: Gpu) -> CutSeen:
        return self.seen

    async def cut(self, gpu: Gpu, order: CutOrder, held_by) -> CutDone:
        self.orders.append(order)
        self.begun.set()
        await self.go.wait()
        if self.silent:
            raise EngineSilent("the driver hangs")
        self.in_between()
        for one in order.destroy:
            if held := held_by(one):
                return CutDone(Outcome.UNDONE, self.seen, held)
        if self.fails:
            return CutDone(Outcome.UNDONE, self.seen, self.fails)
        gone = {one.start for one in order.destroy}
        there = [one for one in self.seen.instances if one.start not in gone]
        there += [replace(one, uuid=f"MIG-new-{one.start}") for one in order.create if one.start not in {other.start for other in there}]
        self.seen = replace(self.seen, instances=tuple(sorted(there, key=lambda one: one.start)), mode=order.mode is not False)
        return CutDone(Outcome.DONE, self.seen)


def a_cutter(scene: Scene, folder: Path, scissors: FakeScissors, **settings) -> Cutter:
    return Cutter(scene.house, lambda gpu: scissors, CutJournal(folder / "mig"), **settings)


def profiles(scene: Scene) -> list[tuple[str, int]]:
    return [(one.profile, one.start) for one in scene.house.nodes[0].gpus[0].instances]


async def events(scene: Scene) -> list[tuple[str, str, str]]:
    return [(one.what, one.why, one.actor) for one in await scene.house.store.events.page(session_id=UUID, limit=10)]


def a_sample(*instances: MigInstance) -> NodeSample:
    gpu = GpuDevice(UUID, "0", 0, "A100-40GB", 40 * GIB, mig=True)
    parts = [
        GpuDevice(one.uuid, f"0_{one.start}_0", 0, "A100-40GB", GIB, parent=UUID, profile=one.profile, start=one.start, size=one.size)
        for one in instances
    ]
    return NodeSample("here", NOW, 1.0, devices=(gpu, *parts))
