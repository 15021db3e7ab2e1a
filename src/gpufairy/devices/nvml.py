"""The NVIDIA GPUs of this machine by the driver's own library. Any call may hang for ever: only nvml_child.py, a process that can be
killed, uses this.
"""
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.reading import GpuProcess, GpuReading, GpuSample, LostGpu
from gpufairy.devices.nvml_calls import GpuGone, ask, open_library
from gpufairy.devices.nvml_events import XidEvents
from gpufairy.devices.nvml_found import Found, FoundGpu, count_gpus, find_gpus
from gpufairy.devices.nvml_gpm import UNKNOWN_WORK, Gpm
from gpufairy.devices.nvml_pcie import Pcie
from gpufairy.devices.nvml_processes import Processes
from gpufairy.devices.nvml_readings import Fields, SlowReading, read_fields, read_gpu, read_instance, read_slow
from gpufairy.devices.nvml_words import cuda_text

SLOW_S = 5.0  # finding the instances of an H200 takes 50 ms, energy 3.5 ms; limits and counts of errors hardly change
AT_ONCE = float("-inf")


@dataclass(frozen=True, slots=True)
class Look:
    """At one GPU. Instances that did not answer as they should are not in `gpu` any more."""

    gpu: FoundGpu
    readings: tuple[GpuReading, ...]
    processes: tuple[GpuProcess, ...]


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
        self._gpm, self._pcie, self._processes, self._events = Gpm(), Pcie(), Processes(), XidEvents()
        cuda = ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        self._driver, self._driver_cuda = ask(pynvml.nvmlSystemGetDriverVersion), None if cuda is None else cuda_text(cuda)

    def close(self) -> None:
        self._events.close()
        self._gpm.keep(())
        ask(pynvml.nvmlShutdown)

    def sample(self, now: datetime) -> GpuSample:
        began_s = time.perf_counter()
        self._look_around()
        looks = list(self._looks(now))
        self._found = tuple(look.gpu for look in looks)
        return GpuSample(
            now,
            devices=tuple(one.device for gpu in self._found for one in (gpu.gpu, *gpu.instances)),
            readings=tuple(reading for look in looks for reading in look.readings),
            processes=tuple(process for look in looks for process in look.processes),
            xids=self._events.taken(),
            lost=tuple(self._lost[index] for index in sorted(self._lost)),
            driver=self._driver,
            driver_cuda=self._driver_cuda,
            took_s=time.perf_counter() - began_s,
        )

    def _look_around(self) -> None:
        """All is found anew every few seconds, and when something is not as it was."""
        count, now_s = count_gpus(), self._clock_s()
        if count == self._count and now_s < self._find_at_s:
            return
        self._count, self._find_at_s = count, now_s + self._slow_s
        found, lost = find_gpus(count, self._uuids)
        self._lost = {gone.index: gone for gone in lost}
        self._uuids |= {gpu.gpu.device.index: gpu.gpu.device.uuid for gpu in found}
        self._found = tuple(gpu for gpu in found if self._looked_slowly(gpu))
        here = {one.device.uuid for gpu in self._found for one in (gpu.gpu, *gpu.instances)}
        self._gpm.keep(here)
        self._pcie.keep(here)
        self._processes.keep(here)
        self._events.listen_to(gpu.gpu for gpu in self._found)

    def _looked_slowly(self, gpu: FoundGpu) -> bool:
        try:
            self._slow[gpu.gpu.device.uuid] = read_slow(gpu.gpu.handle)
        except GpuGone as error:
            self._lose(gpu, error)
            return False
        return True

    def _looks(self, now: datetime) -> Iterator[Look]:
        for gpu in self._found:
            try:
                look = self._look_at(gpu, now)
            except GpuGone as error:
                self._lose(gpu, error)
                continue
            yield look

    def _look_at(self, gpu: FoundGpu, now: datetime) -> Look:
        whole = self._read_gpu(gpu, now)
        parts = [(one, self._read_instance(gpu, one, now)) for one in gpu.instances]
        sound = [(one, reading) for one, reading in parts if reading.memory_total_bytes == one.device.memory_bytes]
        if len(sound) < len(parts):
            gpu = self._without_stale(gpu, tuple(one for one, _ in sound))
        listed = self._processes.on(gpu, now)
        readings = (whole, *(reading for _, reading in sound))
        return Look(
            gpu,
            tuple(one if listed[one.uuid] is not None else replace(one, processes_known=False) for one in readings),
            tuple(process for on_device in listed.values() for process in on_device or ()),
        )

    def _without_stale(self, gpu: FoundGpu, sound: tuple[Found, ...]) -> FoundGpu:
        """One whose memory is not what it was, or not to be read, is gone or was cut anew: nothing is told of it until it is found."""
        self._find_at_s = AT_ONCE
        self._gpm.forget({one.device.uuid for one in gpu.instances} - {one.device.uuid for one in sound})
        return replace(gpu, instances=sound)

    def _read_gpu(self, gpu: FoundGpu, now: datetime) -> GpuReading:
        uuid = gpu.gpu.device.uuid
        work = self._gpm.of_gpu(gpu.gpu) if gpu.has_gpm else UNKNOWN_WORK
        fields = read_fields(gpu.gpu.handle)
        carried = self._pcie.carried(uuid, (fields.sent_bytes, fields.received_bytes), work, self._clock_s())
        fields = Fields(carried.sent_bytes, carried.received_bytes, fields.memory_temperature_c)
        return read_gpu(gpu.gpu, now, fields=fields, slow=self._slow[uuid], work=work)

    def _read_instance(self, gpu: FoundGpu, instance: Found, now: datetime) -> GpuReading:
        work = self._gpm.of_instance(gpu.gpu, instance) if gpu.has_gpm else UNKNOWN_WORK
        return read_instance(instance, now, work)

    def _lose(self, gpu: FoundGpu, error: GpuGone) -> None:
        """No reading of it from here on, and no device: what does not answer must not look idle. It is looked for in the next sample."""
        device = gpu.gpu.device
        self._lost[device.index] = LostGpu(device.index, device.uuid, error.detail)
        self._find_at_s = AT_ONCE
