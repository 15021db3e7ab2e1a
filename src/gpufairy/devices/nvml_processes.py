"""Who is on a GPU or an instance: PIDs of the host, their memory there, and how long they kept it busy."""
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.reading import GpuProcess
from gpufairy.devices.nvml_calls import GpuGone
from gpufairy.devices.nvml_found import Found, FoundGpu
from gpufairy.devices.nvml_words import part

# The versions by name: one list a kind, the layout of today first and that of drivers before 510 after it.
LISTS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "graphics": (pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    "compute": (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2),
    "mps": (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
}
NO_SUCH_KIND = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
NO_INSTANCE = 0xFFFFFFFF  # the number of an instance that a process is not in
NOTHING_RAN = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS)  # the second: an "error" that nvidia-ml-py makes of an empty list
FIRST_LOOK_US = 1_000_000  # how far back the first look goes: older samples say nothing about now
LONGEST_PERIOD_US = 1_100_000  # between two counts of the driver's, and a little: 0.2 s on an H200, by its papers up to 1 s

OnDevice = tuple[GpuProcess, ...] | None  # None: the list could not be read, which is not an empty one


@dataclass(frozen=True, slots=True)
class Busy:
    sm: float | None
    memory: float | None


@dataclass(frozen=True, slots=True)
class Listed:
    pid: int
    part: tuple[int, int]  # the GPU instance and the compute instance it is in
    kind: str
    memory_bytes: int | None  # None: the driver does not say


NOT_COUNTED = Busy(None, None)


@dataclass(frozen=True, slots=True)
class Counted:
    newest_us: int  # since 1970
    busy: dict[int, Busy]  # by PID


class Processes:
    """Of each device, with what each took of it since the look before. Under MIG the driver counts no such thing."""

    def __init__(self) -> None:
        self._counted: dict[str, Counted] = {}

    def on(self, gpu: FoundGpu, now: datetime) -> dict[str, OnDevice]:
        """By device: of a GPU in MIG mode they are on its instances, and who is on it is known if that is known of each."""
        uuid = gpu.gpu.device.uuid
        if not gpu.gpu.device.mig:
            return {uuid: self._on_gpu(gpu.gpu, now)}
        inside = on_instances(gpu)
        return {uuid: None if None in inside.values() else (), **inside}

    def keep(self, uuids: Container[str]) -> None:
        self._counted = {uuid: counted for uuid, counted in self._counted.items() if uuid in uuids}

    def _on_gpu(self, found: Found, now: datetime) -> OnDevice:
        listed = listed_on(found.handle)
        if not listed:
            return None if listed is None else ()
        busy = self._busy(found, (one.pid for one in listed), now)
        return tuple(_process(found, one, busy.get(one.pid, NOT_COUNTED)) for one in listed)

    def _busy(self, found: Found, pids: Iterable[int], now: datetime) -> dict[int, Busy]:
        """Asks only for samples newer than the newest that we saw. A PID without one did nothing; one left out here: nobody can tell."""
        uuid, now_us = found.device.uuid, int(now.timestamp() * 1_000_000)
        counted = self._counted.get(uuid)
        if counted is None or counted.newest_us > now_us + FIRST_LOOK_US:  # the clock was put back: all would look idle until it is there
            counted = Counted(now_us - FIRST_LOOK_US, {})
        samples = _samples(found.handle, counted.newest_us)
        if samples is None:
            return {}
        if samples or now_us - counted.newest_us > LONGEST_PERIOD_US:  # else the driver has not counted since, and what was goes on
            counted = Counted(max((sample.timeStamp for sample in samples), default=counted.newest_us), newest(samples))
        self._counted[uuid] = counted
        return {pid: Busy(0.0, 0.0) for pid in pids} | counted.busy


def newest(samples: Iterable[Any]) -> dict[int, Busy]:
    """Of several samples of one PID the newest counts. Those over 100 % are the driver's mistakes: without another, nobody can tell."""
    by_pid: dict[int, Busy] = {}
    for sample in sorted(samples, key=lambda sample: sample.timeStamp):
        busy = Busy(part(sample.smUtil), part(sample.memUtil))
        if busy.sm is not None and busy.memory is not None:
            by_pid[sample.pid] = busy
        else:
            by_pid.setdefault(sample.pid, Busy(None, None))
    return by_pid


def _samples(handle: Any, since_us: int) -> list[Any] | None:
    try:
        return list(pynvml.nvmlDeviceGetProcessUtilization(handle, since_us))
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise GpuGone(str(error)) from error
        return [] if error.value in NOTHING_RAN else None


def on_instances(gpu: FoundGpu) -> dict[str, OnDevice]:
    """The GPU's own lists say in which instance each process is, in 0.05 ms on an H200; an instance's take 3 to 8 ms."""
    listed = listed_on(gpu.gpu.handle)
    if listed is None or any(NO_INSTANCE in one.part for one in listed):
        return {one.device.uuid: _on_instance(one, listed_on(one.handle)) for one in gpu.instances}
    return {one.device.uuid: _on_instance(one, [row for row in listed if row.part == one.part]) for one in gpu.instances}


def _on_instance(found: Found, listed: Iterable[Listed] | None) -> OnDevice:
    return None if listed is None else tuple(_process(found, one, NOT_COUNTED) for one in listed)


def _process(found: Found, listed: Listed, busy: Busy) -> GpuProcess:
    return GpuProcess(listed.pid, found.device.uuid, listed.memory_bytes, busy.sm, busy.memory, listed.kind)


def listed_on(handle: Any) -> list[Listed] | None:
    """Each PID once in each instance. One that computes and draws is in two lists, with the same memory; that it computes says more."""
    listed: dict[tuple[int, int, int], Listed] = {}
    for kind in LISTS:
        rows = _rows(kind, handle)
        if rows is None:
            return None
        for row in rows:
            key = row.pid, row.gpuInstanceId, row.computeInstanceId
            known = listed.get(key)
            memory_bytes = row.usedGpuMemory
            if memory_bytes is None and known is not None:
                memory_bytes = known.memory_bytes
            listed[key] = Listed(row.pid, key[1:], kind, memory_bytes)
    return list(listed.values())


def _rows(kind: str, handle: Any) -> list[Any] | None:
    """A driver that knows nothing of MPS has nobody under it; one that cannot say who computes leaves it open who is there."""
    code = pynvml.NVML_SUCCESS
    for listed in LISTS[kind]:
        try:
            return list(listed(handle))
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                raise GpuGone(str(error)) from error
            code = error.value
    return [] if kind != "compute" and code in NO_SUCH_KIND else None
