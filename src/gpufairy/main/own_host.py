"""The server watches its own host, as an agent would: the same parts, but what is seen is handed over, not sent."""
import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpufairy.control.history import Chronicle
from gpufairy.control.house import House
from gpufairy.core.believe import Heard
from gpufairy.core.errors import FairyError
from gpufairy.core.mean_sample import mean_sample
from gpufairy.core.node import Node
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuSample, LostGpu
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.devices.nvml_source import NvmlSource
from gpufairy.devices.simulated_source import SimulatedSource
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.kubernetes import KubernetesEngine
from gpufairy.engines.process import ProcessEngine
from gpufairy.main.collect import Source, engine_sockets, naming_rules, page_for
from gpufairy.main.pods import KubernetesWatch, make_pods, no_pods
from gpufairy.node.accounts import Accounts
from gpufairy.node.containers import Containers
from gpufairy.node.host import HostReader
from gpufairy.node.outlet import Outlet
from gpufairy.node.processes import Processes, stat_of
from gpufairy.node.sampler import Eyes, Sampler
from gpufairy.node.session_use import SessionUse
from gpufairy.node.whose import SessionFacts, Whose
from gpufairy.wire.config import WatchConfig

KEPT_EVERY_S = 5.0  # as often as agents report
MOST_GATHERED = 600  # samples, while the store does not answer
FIRST_ANSWER_S = 12.0  # a driver that is loaded by being asked takes ten


class SessionPids:
    """The processes of every session here, by PID and start: numbers come again. Asked of the engine at most so often; while it is
    silent, what it said last, less what has ended."""

    def __init__(self, house: House, engine: ProcessEngine | DockerEngine | KubernetesEngine, every_s: float) -> None:
        self._house, self._engine, self._every_s = house, engine, every_s
        self._starts: Mapping[WorkloadId, Mapping[int, int]] = {}  # by PID: when it began
        self._session_of: dict[tuple[int, int], SessionFacts] = {}
        self._asked_s = float("-inf")

    async def by_session(self) -> dict[str, Sequence[int]]:
        await self._ask()
        return {workload.session_id: list(self._starts[workload]) for workload in self._live() if workload in self._starts}

    async def by_gpu(self) -> dict[str, list[int]]:
        """By the UUID of the GPU or MIG instance that the session holds."""
        await self._ask()
        on_gpu: dict[str, list[int]] = {}
        for workload, session in self._live().items():
            for gpu in session.seat.gpus if session.seat is not None else ():
                on_gpu.setdefault(gpu.device, []).extend(self._starts.get(workload, ()))
        return on_gpu

    def session_of(self, pid: int, start_ticks: int) -> SessionFacts | None:
        return self._session_of.get((pid, start_ticks))

    async def _ask(self) -> None:
        if time.monotonic() - self._asked_s >= self._every_s:
            self._asked_s = time.monotonic()
            self._starts = await self._look()
        # Each time: a session that has ended meanwhile has no processes any more, whatever the engine said.
        self._session_of = {
            started: SessionFacts(session.id, session.name, session.owner)
            for workload, session in self._live().items()
            for started in self._starts.get(workload, {}).items()
        }

    def _live(self) -> dict[WorkloadId, Session]:
        """Those of which the engine has told any process: on a cluster none of ten thousand."""
        return {workload_id(session): session for session in self._house.book.holding()} if self._starts else {}

    async def _look(self) -> Mapping[WorkloadId, Mapping[int, int]]:
        before = self._starts
        try:
            return await asyncio.to_thread(starts_of, await self._engine.pids_of_all())
        except FairyError:
            now = await asyncio.to_thread(starts_of, before)
            return {workload: dict(starts.items() & now[workload].items()) for workload, starts in before.items()}


def starts_of(pids: Mapping[WorkloadId, Iterable[int]]) -> dict[WorkloadId, dict[int, int]]:
    return {workload: {pid: stat.start_ticks for pid in of_it if (stat := stat_of(pid)) is not None} for workload, of_it in pids.items()}


class OwnHost:
    def __init__(
        self, house: House, engine: ProcessEngine | DockerEngine | KubernetesEngine, node: Node, *,
        watch: WatchConfig, every_s: float, server_id: str | None, socket: str | None = None, data: Path | None = None,
    ) -> None:  # fmt: skip
        """`socket`: of the container engine, where the settings name it. `data`: where counts are kept."""
        self._house, self._chronicle = house, Chronicle(house)
        simulated = any(gpu.simulated for gpu in node.gpus)  # without any, the driver is asked all the same: it may only be slow today
        pids = SessionPids(house, engine, 0.5 if simulated else KEPT_EVERY_S - 1)
        self._simulation = simulation = SimulatedSource(node.gpus, pids.by_gpu, every_s)
        self._source: Source = simulation if simulated else NvmlSource(every_s, on_sample=self._errors)
        containers, accounts = Containers(engine_sockets(socket)), Accounts()
        rules = naming_rules(watch.name_rules, watch.user_labels, watch.users, what="watch.name_rules")
        kubernetes = KubernetesWatch(watch.kubernetes, watch.kubernetes_node, watch.kubelet, tuple(watch.session_namespaces))
        pods = make_pods(kubernetes, os.environ)
        whose = Whose(
            containers, rules, accounts=accounts.name, sessions_by_pid=pids.session_of, server_id=server_id,
            pods=no_pods if pods is None else pods.facts, session_namespaces=watch.session_namespaces,
        )  # fmt: skip
        eyes = Eyes(Processes(), containers, whose, HostReader(accounts=accounts.name), SessionUse(), pods)
        self._sampler = Sampler(node.name, self._source, eyes, pids_of_sessions=pids.by_session)
        self._outlet = Outlet(page_for(every_s), data=data)
        self._gathered: list[NodeSample] = []
        self._kept_s = self._began_s = time.monotonic()
        self._answered = False
        self._fit: tuple[bool, frozenset[LostGpu]] = (True, frozenset())  # what decides whether GPUs may be handed out

    async def start(self) -> None:
        await self._source.start()

    async def close(self) -> None:
        await self._source.close()
        await asyncio.to_thread(self._outlet.close)
        if self._gathered:
            with contextlib.suppress(FairyError):  # a store that is gone has taken its leave before us
                await self._chronicle.take(mean_sample(self._gathered))

    async def look(self) -> None:
        """A loop's turn."""
        # By the server's own clock, which nobody sets: what is read now is never written over the past, or into the future.
        if self._source is self._simulation:
            self._simulation.show([gpu for node in self._house.nodes for gpu in node.gpus])
        sample = replace(await self._sampler.take(), at=self._house.clock())
        self._answered |= sample.gpus_known
        if not self._answered and time.monotonic() - self._began_s < FIRST_ANSWER_S:
            return  # a driver that was not heard yet is not a faulty one
        self._house.watch.take(sample, own=True)
        if (fit := (sample.gpus_known, frozenset(sample.lost))) != self._fit:
            self._fit = fit
            await self._house.look_at_nodes()
            self._house.bells.place.set()
        self._outlet.put(sample)
        self._gathered.append(sample)
        del self._gathered[:-MOST_GATHERED]
        if time.monotonic() - self._kept_s >= KEPT_EVERY_S:
            self._kept_s = time.monotonic()
            await self._chronicle.take(mean_sample(self._gathered))
            self._gathered.clear()  # and not before: what the store did not take goes with the next

    @contextlib.asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Nobody here reads the GPUs: while anybody does, the driver does not change MIG mode."""
        await self._source.close()
        try:
            yield
        finally:
            await self._source.start()

    async def roll_up(self) -> None:
        await self._chronicle.roll_up()

    async def keep(self, heard: Sequence[Heard]) -> None:
        """Of another host, as its agent told it."""
        await self._chronicle.take_all(heard)

    def metrics(self) -> bytes:
        answer = self._outlet.page.answer(gzipped=False)
        return answer.body if answer.status == 200 else b""

    def _errors(self, sample: GpuSample) -> None:
        self._sampler.note_errors(sample)
