"""The NVIDIA GPUs of this machine by the driver's own library. Any call may hang for ever: only nvml_child.py, a process that can be
killed, uses this.
"""
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.reading import GpuProcess, GpuReading, GpuSample, LostGpu
from gpufairy.devices.nvml_calls import GpuGone, ask, open_library
from gpufairy.devices.nvml_events import XidEvents
from gpufairy.devices.nvml_found import FoundGpu, count_gpus, find_gpus, find_instances
from gpufairy.devices.nvml_gpm import UNKNOWN_WORK, Gpm
from gpufairy.devices.nvml_processes import Processes
from gpufairy.devices.nvml_readings import SlowReading, read_gpu, read_instance, read_slow
from gpufairy.devices.nvml_words import cuda_text

SLOW_S = 5.0  # energy takes 3.5 ms, MIG mode 0.3 ms; limits and counts of errors hardly change
AT_ONCE = float("-inf")


class Nvml:
    """`open` before anything else; both it and `sample` raise NvmlFailed when the driver says nothing at all."""

    def __init__(self, slow_s: float = SLOW_S, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._slow_s, self._clock_s = slow_s, clock_s
        self._count: int | None = None
        self._found: tuple[FoundGpu, ...] = ()
        self._lost: dict[int, LostGpu] = {}
        self._uuids: dict[int, str] = {}  # by index, as last seen
        self._slow: dict[str, SlowReading] = {}
        self._find_at_s = AT_ONCE

    def open(self) -> None:
        open_library()
        self._gpm, self._processes, self._events = Gpm(), Processes(), XidEvents()
        cuda = ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        self._driver, self._driver_cuda = ask(pynvml.nvmlSystemGetDriverVersion), None if cuda is None else cuda_text(cuda)

    def close(self) -> None:
        self._events.close()
        self._gpm.keep(())
        ask(pynvml.nvmlShutdown)

    def sample(self, now: datetime) -> GpuSample:
        began_s = time.perf_counter()
        self._look_around()
        readings: list[GpuReading] = []
        processes: list[GpuProcess] = []
        for gpu in self._found:
            try:
                new = list(self._readings_of(gpu, now)), list(self._processes_of(gpu, now))
            except GpuGone as error:
                self._lose(gpu, error)
                continue
            readings += new[0]
            processes += new[1]
        return GpuSample(
            now,
            devices=tuple(one.device for gpu in self._found for one in (gpu.gpu, *gpu.instances)),
            readings=tuple(readings),
            processes=tuple(processes),
            xids=self._events.taken(),
            lost=tuple(self._lost[index] for index in sorted(self._lost)),
            driver=self._driver,
            driver_cuda=self._driver_cuda,
            took_s=time.perf_counter() - began_s,
        )

    def _look_around(self) -> None:
        """All is found anew every few seconds, and when something changed. Instances are listed each time: they are cut while we run."""
        count, now_s = count_gpus(), self._clock_s()
        if count == self._count and now_s < self._find_at_s:
            for gpu in [gpu for gpu in self._found if gpu.gpu.device.mig]:
                self._look_at_cut(gpu)
            return
        self._count, self._find_at_s = count, now_s + self._slow_s
        found, lost = find_gpus(count, self._uuids)
        self._found, self._lost = tuple(found), {gone.index: gone for gone in lost}
        self._uuids |= {gpu.gpu.device.index: gpu.gpu.device.uuid for gpu in found}
        for gpu in found:
            self._look_slowly(gpu)
        here = {one.device.uuid for gpu in self._found for one in (gpu.gpu, *gpu.instances)}
        self._gpm.keep(here)
        self._processes.keep(here)
        self._events.listen_to(gpu.gpu for gpu in self._found)

    def _look_at_cut(self, gpu: FoundGpu) -> None:
        try:
            instances = find_instances(gpu)
        except GpuGone as error:
            self._lose(gpu, error)
            return
        self._found = tuple(replace(gpu, instances=instances) if one is gpu else one for one in self._found)

    def _look_slowly(self, gpu: FoundGpu) -> None:
        try:
            self._slow[gpu.gpu.device.uuid] = read_slow(gpu.gpu.handle)
        except GpuGone as error:
            self._lose(gpu, error)

    def _readings_of(self, gpu: FoundGpu, now: datetime) -> Iterator[GpuReading]:
        work = self._gpm.of_gpu(gpu.gpu) if gpu.has_gpm else UNKNOWN_WORK
        yield read_gpu(gpu.gpu, now, self._slow[gpu.gpu.device.uuid], work)
        for instance in gpu.instances:
            work = self._gpm.of_instance(gpu.gpu, instance) if gpu.has_gpm else UNKNOWN_WORK
            reading = read_instance(instance, now, work)
            if reading.memory_total_bytes != instance.device.memory_bytes:
                self._find_at_s = AT_ONCE  # cut anew under its old UUID, or gone since it was listed
            yield reading

    def _processes_of(self, gpu: FoundGpu, now: datetime) -> Iterator[GpuProcess]:
        if not gpu.gpu.device.mig:
            yield from self._processes.on_gpu(gpu.gpu, now)
        for instance in gpu.instances:
            yield from self._processes.on_instance(instance)

    def _lose(self, gpu: FoundGpu, error: GpuGone) -> None:
        """No reading of it from here on, and no device: what does not answer must not look idle. It is looked for in the next sample."""
        device = gpu.gpu.device
        self._found = tuple(one for one in self._found if one is not gpu)
        self._lost[device.index] = LostGpu(device.index, device.uuid, error.detail)
        self._find_at_s = AT_ONCE
