"""SimulatedSource: samples of GPUs that are not there. Each looks as busy as the processes that hold it keep the CPUs."""
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Gpu
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, GpuSample
from gpufairy.devices.gpu_source import OnSample

PidsByGpu = Callable[[], Awaitable[Mapping[str, Sequence[int]]]]  # by the UUID of what they hold: a GPU or an instance


class SimulatedSource:
    """`pids_by_gpu` and `on_sample` must not raise: who gives them knows what their errors mean."""

    def __init__(
        self,
        gpus: Sequence[Gpu],
        pids_by_gpu: PidsByGpu,
        every_s: float = 1.0,
        *,
        on_sample: OnSample | None = None,
        cores: int | None = None,
    ) -> None:
        self._devices = tuple(device for gpu in gpus for device in devices_of(gpu))
        self._pids_by_gpu, self._every_s, self._on_sample = pids_by_gpu, every_s, on_sample
        self._times = CpuTimes(cores or len(os.sched_getaffinity(0)))
        self._sample: GpuSample | None = None
        self._loop: asyncio.Task[None] | None = None

    def show(self, gpus: Sequence[Gpu]) -> None:
        """They may have been cut anew."""
        self._devices = tuple(device for gpu in gpus for device in devices_of(gpu))

    @property
    def trouble(self) -> str:
        return ""

    @property
    def answered(self) -> bool:
        return self._sample is not None

    def latest(self) -> GpuSample | None:
        return self._sample

    async def start(self) -> None:
        await self.take()
        self._loop = asyncio.create_task(self._keep_taking())

    async def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])

    async def take(self) -> GpuSample:
        began_s = time.perf_counter()
        took = self._times.since_last(await self._pids_by_gpu(), time.monotonic())
        now = datetime.now(UTC)
        processes = tuple(one for device in self._devices for one in processes_on(device, took.get(device.uuid, {})))
        readings = tuple(reading_of(device, processes, self._times.known, now) for device in self._devices)
        self._sample = GpuSample(now, self._devices, self._with_parents(readings), processes, took_s=time.perf_counter() - began_s)
        if self._on_sample is not None:
            self._on_sample(self._sample)
        return self._sample

    async def _keep_taking(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self.take()

    def _with_parents(self, readings: Sequence[GpuReading]) -> tuple[GpuReading, ...]:
        """A GPU in MIG mode holds what its instances hold, and as with a real one nobody can tell how busy the whole is."""
        used = {reading.uuid: reading.memory_used_bytes or 0 for reading in readings}
        inside = {cut.uuid: sum(used[one.uuid] for one in self._devices if one.parent == cut.uuid) for cut in self._devices if cut.mig}
        return tuple(
            replace(reading, utilisation=None, memory_used_bytes=inside[reading.uuid]) if reading.uuid in inside else reading
            for reading in readings
        )


@dataclass(frozen=True, slots=True)
class Used:
    """What one process has used since it began."""

    start_ticks: int
    cpu_s: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Took:
    part: float | None  # of all CPUs; None: not seen long enough
    resident_bytes: int


class CpuTimes:
    """What each process took of the CPUs since the look before. The first look has nothing to compare with."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._before: dict[int, Used] = {}
        self._looked_s: float | None = None
        self.known = False

    def since_last(self, pids_by_gpu: Mapping[str, Sequence[int]], now_s: float) -> dict[str, dict[int, Took]]:
        """`now_s` is of a clock that never runs back."""
        used = {pid: found for pid in {pid for pids in pids_by_gpu.values() for pid in pids} if (found := used_by(pid)) is not None}
        elapsed_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self.known = elapsed_s > 0
        took = {
            pid: Took(self._cpu_s(pid, one) / elapsed_s / self._cores if elapsed_s > 0 else None, one.resident_bytes)
            for pid, one in used.items()
        }
        self._before, self._looked_s = used, now_s
        return {uuid: {pid: took[pid] for pid in pids if pid in took} for uuid, pids in pids_by_gpu.items()}

    def _cpu_s(self, pid: int, process: Used) -> float:
        """A process not seen before, or a new one under an old number, has used all of its time since."""
        before = self._before.get(pid)
        same = before is not None and before.start_ticks == process.start_ticks
        return max(0.0, process.cpu_s - (before.cpu_s if same and before is not None else 0.0))


def used_by(pid: int) -> Used | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read(4096)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = line[line.rfind(b")") + 1 :].split()
    ticks, page_bytes = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return Used(int(fields[19]), (int(fields[11]) + int(fields[12])) / ticks, max(0, int(fields[21])) * page_bytes)


def processes_on(device: GpuDevice, took: Mapping[int, Took]) -> Iterator[GpuProcess]:
    """Their parts come to the whole GPU's, never to more than one."""
    full = max(1.0, sum(one.part or 0.0 for one in took.values()))
    for pid, one in took.items():
        memory_bytes = min(one.resident_bytes, device.memory_bytes or one.resident_bytes)
        yield GpuProcess(pid, device.uuid, memory_bytes, None if one.part is None else one.part / full)


def reading_of(device: GpuDevice, processes: Sequence[GpuProcess], known: bool, now: datetime) -> GpuReading:
    here = [process for process in processes if process.uuid == device.uuid]
    held = sum(process.memory_bytes or 0 for process in here)
    return GpuReading(
        device.uuid,
        now,
        utilisation=min(1.0, sum(process.utilisation or 0.0 for process in here)) if known else None,
        memory_used_bytes=min(held, device.memory_bytes or held),
        simulated=True,
        memory_total_bytes=device.memory_bytes,
    )


def devices_of(gpu: Gpu) -> Iterator[GpuDevice]:
    """One that is cut on demand has no instances to read: what is handed out of it is on the whole."""
    name = f"simulated {gpu.kind}"
    yield GpuDevice(gpu.uuid, str(gpu.index), gpu.index, gpu.kind, gpu.memory_bytes, name, mig=bool(gpu.instances), simulated=True)
    for number, cut in enumerate(gpu.instances or (), 1):
        yield GpuDevice(
            cut.uuid,
            label=f"{gpu.index}_{number}_0",
            index=gpu.index,
            kind=gpu.kind,
            memory_bytes=memory_of(gpu, cut),
            name=f"{name} MIG {cut.profile}",
            parent=gpu.uuid,
            profile=cut.profile,
            start=cut.start,
            size=cut.size,
            simulated=True,
        )


def memory_of(gpu: Gpu, cut: MigInstance) -> int:
    profile = gpu.mig.profile(cut.profile) if gpu.mig is not None else None
    if profile is not None and profile.memory_bytes is not None:
        return profile.memory_bytes
    return gpu.memory_bytes * cut.size // (gpu.mig.memory_slices if gpu.mig is not None else 1)
