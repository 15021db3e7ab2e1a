"""Looks: how every GPU of this server is cut now, who holds which instance, and who computes on it."""
import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.control.house import House
from gpufairy.core.errors import EngineRefused, EngineSilent, NoSuchThing
from gpufairy.core.holders import Holder, holders_by_gpu
from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.mig_cut import cut_now
from gpufairy.core.mig_plan import CutNow
from gpufairy.core.names import nearest
from gpufairy.core.node import Gpu
from gpufairy.core.owner import KnownBy
from gpufairy.devices.mig_order import CutSeen
from gpufairy.devices.mig_scissors import Scissors
from gpufairy.devices.mig_tables import mig_tables

log = logging.getLogger("gpufairy.mig")


@dataclass(frozen=True, slots=True)
class CutView:
    node: str
    gpu: Gpu
    table: MigTable
    now: CutNow
    holders: tuple[Holder, ...]
    held: tuple[str, ...]  # who stands in the way of a change of MIG mode, in words
    mode: bool
    auto: bool
    cutting: bool

    @property
    def name(self) -> str:
        return f"{self.node} GPU {self.gpu.index}"


class Looks:
    def __init__(self, house: House, scissors: Callable[[Gpu], Scissors]) -> None:
        self._house, self._scissors = house, scissors
        self._asked: set[str] = set()
        self._asking = asyncio.Lock()
        self._tables: dict[str, MigTable] = {}  # as the driver told them: what NVIDIA's documents say of a kind may be old
        self.cutting: set[str] = set()

    def views(self) -> list[CutView]:
        """Of the GPUs that could be cut."""
        gpus = [gpu for node in self._house.nodes for gpu in node.gpus]
        return [self.view(gpu.uuid) for gpu in gpus if self._table(gpu) is not None]

    def view(self, uuid: str, seen: CutSeen | None = None) -> CutView:
        """`seen`: as the driver tells it now, which counts for more than what is remembered."""
        node, gpu = self._find(uuid)
        table = seen.table if seen is not None else self._table(gpu)
        if table is None:
            raise EngineRefused(f"{node} GPU {gpu.index} ({gpu.kind}) cannot be cut by MIG", f"These kinds can: {', '.join(mig_tables())}.")
        cuts, holders = self._house.cuts, tuple(holders_by_gpu(self._house.book.holding()).get(uuid, ()))
        busy = self.busy()
        mode = gpu.mig is not None if seen is None else seen.mode
        now = cut_now(gpu, table, holders, busy)
        if seen is not None and gpu.instances is not None:
            used = {holder.gpu.start for holder in holders} | {one.start for one in seen.instances if one.uuid in busy}
            now = CutNow(gpu.kind, table, seen.instances, frozenset(used))
        held = (*dict.fromkeys(f"what {one.owner} holds" for one in holders), *(("somebody's process",) if uuid in busy else ()))
        now = now if mode else CutNow(gpu.kind, table)
        return CutView(node, gpu, table, now, holders, held, mode, cuts.is_auto(uuid), uuid in cuts.in_hand)

    async def driver(self, uuid: str) -> CutSeen | None:
        """None: it is cut on demand, and there is no driver to ask."""
        _, gpu = self._find(uuid)
        found = self._house.found_gpu(uuid) or gpu
        seen = await self._scissors(found).look(found)
        self._tables[uuid] = seen.table
        return None if gpu.simulated else seen

    async def fresh_table(self, uuid: str) -> CutView:
        """As `view`, with the places that the driver tells. Asked once: anybody may look, and one that hangs must not be asked by all."""
        _, gpu = self._find(uuid)
        async with self._asking:
            if not gpu.simulated and uuid not in self._asked:
                self._asked.add(uuid)
                try:
                    await self.driver(uuid)
                except (EngineRefused, EngineSilent) as error:
                    log.warning("the places of MIG instances on %s are taken from NVIDIA's tables: %s", uuid, error)
        return self.view(uuid)

    def settled(self, uuid: str, seen: CutSeen) -> None:
        self.cutting.discard(uuid)
        self._tables[uuid] = seen.table

    def busy(self) -> set[str]:
        """UUIDs of the GPUs and instances on which a process is, whoever's. MPS's server is nobody's: its programs are listed too."""
        processes = [process for sample in self._house.watch.samples() for process in sample.processes]
        return {process.on.uuid for process in processes if process.owner.known_by is not KnownBy.MPS}

    def held_by(self, uuid: str, instance: MigInstance) -> str:
        """In words; empty: nobody. Asked anew right before an instance goes."""
        holders = holders_by_gpu(self._house.book.holding()).get(uuid, ())
        found = next((one for one in holders if one.gpu.start == instance.start), None)
        return "" if found is None else f"{found.owner} holds {instance.profile} at slice {instance.start}"

    def _table(self, gpu: Gpu) -> MigTable | None:
        return self._tables.get(gpu.uuid) or gpu.mig or mig_tables().get(gpu.kind)

    def check_known(self, uuid: str) -> None:
        """Raises NoSuchThing, or EngineRefused for one that is lost."""
        self._find(uuid)

    def _find(self, uuid: str) -> tuple[str, Gpu]:
        gpus = {gpu.uuid: (node.name, gpu) for node in self._house.nodes for gpu in node.gpus}
        if uuid not in gpus and (lost := self._house.found_gpu(uuid)) is not None:
            found = f"GPU {lost.index} ({uuid}) does not answer, so it cannot be cut"
            raise EngineRefused(found, "See `dmesg` and `fairy node list`; a reset of the GPU or of the machine may bring it back.")
        if uuid not in gpus:
            raise NoSuchThing(f"no GPU {uuid[:80]!r} on this server{nearest(uuid, gpus)}", "See `fairy mig show`.")
        return gpus[uuid]
