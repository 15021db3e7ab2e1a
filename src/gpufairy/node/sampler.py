"""Sampler: puts one sample of this host together: what its GPUs say, whose the processes on them are, how the host is."""
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from gpufairy.core.active import ActivityWindow
from gpufairy.core.free_now import in_use
from gpufairy.core.host_reading import HostReading
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import Owner, RunningProcess
from gpufairy.core.reading import GpuProcess, GpuReading, GpuSample, Xid
from gpufairy.devices.gpu_source import GpuSource
from gpufairy.node.containers import Containers
from gpufairy.node.pods import Pods
from gpufairy.node.processes import Processes
from gpufairy.node.whose import Whose

HOST_EVERY_S = 5.0  # nothing about a host changes so quickly that more would be seen
SHUT_IN = "the collector must see the host's processes (in a container: the host's PID namespace)"
NOT_FOUND = "[not found]"  # as nvidia-smi calls a process that the driver knows and the host does not


class ReadsHost(Protocol):
    def read(self) -> HostReading: ...

    @property
    def trouble(self) -> tuple[str, ...]: ...


class ReadsSessions(Protocol):
    def read(self, pids: Mapping[str, Sequence[int]]) -> tuple[SessionReading, ...]: ...


PidsOfSessions = Callable[[], Awaitable[Mapping[str, Sequence[int]]]]  # by session id


@dataclass(slots=True)
class Eyes:
    """What is looked with. Each may be slow now and then, so they are used in a thread."""

    processes: Processes
    containers: Containers
    whose: Whose
    host: ReadsHost
    sessions: ReadsSessions | None = None
    pods: Pods | None = None


class Sampler:
    def __init__(
        self, node: str, source: GpuSource, eyes: Eyes, *,
        pids_of_sessions: PidsOfSessions | None = None, window: ActivityWindow | None = None, host_every_s: float = HOST_EVERY_S,
    ) -> None:  # fmt: skip
        self._node, self._source, self.eyes, self._pids_of_sessions = node, source, eyes, pids_of_sessions
        self._window, self._host_every_s = ActivityWindow() if window is None else window, host_every_s  # an empty one is false
        self._host: HostReading | None = None
        self._host_read_s = self._sampled_s = float("-inf")
        self._xids: list[Xid] = []
        self._unseen_pids: set[int] | None = None  # None: nobody has looked yet

    def note_errors(self, sample: GpuSample) -> None:
        """Of every sample that the source makes: errors are told once, and must not be lost between two looks."""
        self._xids += sample.xids

    async def take(self) -> NodeSample:
        pids = await self._pids_of_sessions() if self._pids_of_sessions is not None else {}
        gpus, trouble = self._source.latest(), self._source.trouble
        xids, self._xids = tuple(self._xids), []
        return await asyncio.to_thread(self._look, gpus, trouble, xids, pids)

    def _look(self, gpus: GpuSample | None, trouble: str, xids: tuple[Xid, ...], pids: Mapping[str, Sequence[int]]) -> NodeSample:
        now_s = time.monotonic()
        seconds = min(3600.0, now_s - self._sampled_s) if self._sampled_s > float("-inf") else 0.0
        self._sampled_s = now_s
        self.eyes.containers.refresh()
        pods = self.eyes.pods
        if pods is not None:
            pods.refresh()
        seen = gpus or GpuSample(datetime.now(UTC))
        processes = tuple(self._processes(seen, now_s))
        sessions = self.eyes.sessions.read(pids) if self.eyes.sessions is not None else ()
        host = self._read_host(now_s)
        readings, hidden = self._hidden(seen)
        unseen = self._unseen(processes)
        told_of_pods = () if pods is None else pods.trouble
        words = (trouble if gpus is None else "", *self.eyes.containers.trouble, *told_of_pods, *self.eyes.host.trouble, unseen, hidden)
        return NodeSample(
            self._node, datetime.now(UTC), seconds, host, seen.devices, readings, processes, sessions, xids, seen.lost,
            seen.driver, seen.driver_cuda, containers_known=self.eyes.containers.known, gpus_known=gpus is not None,
            trouble=tuple(word for word in words if word), pods_known=None if pods is None else pods.known,
        )  # fmt: skip

    def _read_host(self, now_s: float) -> HostReading | None:
        if now_s - self._host_read_s >= self._host_every_s - 0.5:  # half a second early is better than a whole beat late
            self._host, self._host_read_s = self.eyes.host.read(), now_s
        return self._host

    def _processes(self, seen: GpuSample, now_s: float) -> Iterator[ProcessReading]:
        busy = {reading.uuid: reading.utilisation for reading in seen.readings}
        alone = _alone(seen.processes)
        # Who holds a simulated GPU is told by its PID here, whatever the driver's are.
        named, simulated = self.eyes.processes.namespace.names(seen.driver), {device.uuid for device in seen.devices if device.simulated}
        for on in seen.processes:
            process = self.eyes.processes.running(on.pid) if named or on.uuid in simulated else None
            if process is None and on.uuid in simulated:
                continue  # it has ended since it was listed; a real driver may also mean one that /proc here does not show
            owner = Owner() if process is None else self.eyes.whose.owner(process, self.eyes.processes.cgroup(on.pid), on.uuid)
            process = process or RunningProcess(on.pid, 0, None, NOT_FOUND)
            key = (on.pid, process.start_ticks, on.uuid)
            # Nobody counts a process' use under MIG; but what the instance does is what the only process on it does.
            use = on.utilisation if on.utilisation is not None or on.uuid not in alone else busy.get(on.uuid)
            self._window.note(key, now_s, use)
            found = self._window.of(key, now_s)
            yield ProcessReading(replace(on, utilisation=use), process, owner, found.active, found.why)
        self._window.forget(now_s - 3600)

    def _unseen(self, processes: Sequence[ProcessReading]) -> str:
        """Those of two looks in turn: the driver tells of a process a moment longer than it lives."""
        before, self._unseen_pids = self._unseen_pids, {process.on.pid for process in processes if process.process.start_ticks == 0}
        unseen = len(self._unseen_pids if before is None else self._unseen_pids & before)
        if unseen == 0:
            return ""
        what = "1 process on a GPU is" if unseen == 1 else f"{unseen} processes on GPUs are"
        return f"{what} not in /proc here: {SHUT_IN}"

    def _hidden(self, seen: GpuSample) -> tuple[tuple[GpuReading, ...], str]:
        """Inside a PID namespace of our own the driver says nothing of the host's processes, and what they use must not look idle."""
        if self.eyes.processes.namespace.is_hosts:
            return seen.readings, ""
        told = {process.uuid for process in seen.processes}
        silent = {device.uuid: device.label for device in seen.devices if not (device.mig or device.simulated or device.uuid in told)}
        hidden = [silent[reading.uuid] for reading in seen.readings if reading.uuid in silent and in_use(reading)]
        if not hidden:
            return seen.readings, ""
        readings = (replace(one, processes_known=False) if silent.get(one.uuid) in hidden else one for one in seen.readings)
        return tuple(readings), f"GPU {', '.join(hidden)}: in use by processes that are not seen here: {SHUT_IN}"


def _alone(processes: Sequence[GpuProcess]) -> set[str]:
    """The devices with one process on them."""
    pids: dict[str, set[int]] = {}
    for process in processes:
        pids.setdefault(process.uuid, set()).add(process.pid)
    return {uuid for uuid, on_it in pids.items() if len(on_it) == 1}
