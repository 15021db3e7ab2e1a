"""GPUs that are shared in fractions: MPS made ready before a session starts, watched while it runs, its news told to those it befell."""
import logging
from pathlib import Path

from gpufairy.control.house import House
from gpufairy.core.errors import EngineRefused
from gpufairy.core.lifecycle import Phase
from gpufairy.core.owner import KnownBy
from gpufairy.core.session import Session
from gpufairy.core.sharing import Closed, by_mps, sm_percent
from gpufairy.core.steps import noted
from gpufairy.devices.compute_mode import KeptComputeMode
from gpufairy.devices.memory_limits import DriverMemoryLimits, cgroup_of
from gpufairy.devices.mps import HeldShare, MpsDaemons, MpsEvent, MpsNews
from gpufairy.devices.mps_daemon import leave_compute_mode
from gpufairy.engines.share_files import shared_gpus

log = logging.getLogger("gpufairy.mps")
QUIET = frozenset({MpsEvent.ENDED})  # of no consequence to anybody


class SharedGpus:
    def __init__(self, folder: Path, *, exclusive: bool = True) -> None:
        """`exclusive`: while a GPU is shared, only MPS's clients may use it."""
        self._driver = DriverMemoryLimits()
        self.daemons = MpsDaemons(folder, compute_mode=KeptComputeMode(folder) if exclusive else leave_compute_mode)

    async def ready(self, session: Session) -> Path | None:
        """The folder of MPS's pipes, if it has a part of a GPU by MPS. Raises EngineRefused."""
        pipes = None
        for gpu in session.seat.gpus if session.seat is not None else ():
            if by_mps(gpu):
                pipes = await self.daemons.ready(gpu.uuid, sm_percent=sm_percent(gpu), memory_bytes=gpu.memory_bytes)
            elif not gpu.simulated and not gpu.profile:
                await self.daemons.give_up(gpu.uuid)
        return pipes

    async def begun(self, session: Session, pid: int) -> None:
        """Where the driver itself can limit a container's memory, it does so too: that binds programs that go round the library."""
        cgroup = cgroup_of(pid)
        if cgroup is None:
            return
        for gpu in shared_gpus(session):
            try:
                if await self._driver.hold(gpu.uuid, cgroup, gpu.memory_bytes):
                    log.info("session %s is held to %d bytes of GPU %s by the driver", session.name, gpu.memory_bytes, gpu.uuid)
            except EngineRefused as error:  # the library holds it still
                log.warning("session %s: %s", session.name, error.detail)

    async def look(self, house: House) -> None:
        """A loop's turn."""
        held: dict[str, list[HeldShare]] = {}
        for session in house.book.holding():
            for gpu in session.seat.gpus if session.seat is not None and session.phase is not Phase.PLACED else ():
                if by_mps(gpu):
                    held.setdefault(gpu.uuid, []).append(HeldShare(session.id, sm_percent(gpu), gpu.memory_bytes))
        all_news = await self.daemons.watch(held, processes_seen(house))
        statuses = self.daemons.status()
        if house.shares.close({one.gpu: Closed(one.closed, one.stays) for one in statuses if one.closed or one.stays}):
            await house.look_at_nodes()
            house.bells.place.set()
        for news in all_news:
            await self._tell(house, news)

    async def leave(self, house: House) -> None:
        """When the server goes: MPS outlives it for its sessions. Without any, nobody but us would give the GPUs back to other programs."""
        if house.store.lease_lost.is_set() or house.silent_since is not None:
            return  # another server leads, or the engine did not say what runs: who holds what is not known here
        held = {gpu.uuid for session in house.book.holding() if session.seat is not None for gpu in session.seat.gpus}
        for gpu in [status.gpu for status in self.daemons.status() if status.gpu not in held]:
            try:
                await self.daemons.give_up(gpu)
            except EngineRefused as error:
                log.warning("the MPS daemon of GPU %s is left running: %s", gpu, error.detail)

    async def _tell(self, house: House, news: MpsNews) -> None:
        if news.event in QUIET:
            log.info("%s", news.words)
            return
        log.warning("%s", news.words)
        befallen = [session for one in news.sessions if (session := house.book.get(one)) is not None]
        await house.save([noted(session, news.event, house.clock(), news.words) for session in befallen])


def processes_seen(house: House) -> dict[str, set[int]]:
    """By the GPU they are on, without MPS's own servers. A GPU that is not in it may have any: the driver did not tell."""
    seen: dict[str, set[int]] = {}
    ours = {node.name for node in house.nodes}
    for sample in [one for one in house.watch.samples() if one.node in ours and one.gpus_known]:
        seen |= {reading.uuid: set() for reading in sample.readings if reading.processes_known}
        for process in [one for one in sample.processes if one.owner.known_by is not KnownBy.MPS]:
            seen.setdefault(process.on.uuid, set()).add(process.on.pid)
    return seen
