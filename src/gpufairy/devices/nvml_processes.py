"""Who is on a GPU or an instance: PIDs of the host, their memory there, and how long they kept it busy."""
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.reading import GpuProcess
from gpufairy.devices.nvml_calls import GpuGone, ask
from gpufairy.devices.nvml_found import Found
from gpufairy.devices.nvml_words import part

# The versions by name: one list a kind, the layout of today first and that of drivers before 510 after it.
LISTS: tuple[tuple[str, Callable[..., Any], Callable[..., Any]], ...] = (
    ("graphics", pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    ("compute", pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2),
    ("mps", pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
)
NOTHING_RAN = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS)  # the second: an "error" that nvidia-ml-py makes of an empty list
FIRST_LOOK_US = 1_000_000  # how far back the first look goes: older samples say nothing about now


@dataclass(frozen=True, slots=True)
class Busy:
    sm: float | None
    memory: float | None


@dataclass(frozen=True, slots=True)
class Listed:
    kind: str
    memory_bytes: int | None  # None: the driver does not say


NOT_COUNTED = Busy(None, None)


class Processes:
    """Of each device, with what each took of it since the look before. Under MIG the driver counts no such thing."""

    def __init__(self) -> None:
        self._newest_us: dict[str, int] = {}

    def on_instance(self, found: Found) -> Iterator[GpuProcess]:
        for pid, listed in listed_on(found).items():
            yield GpuProcess(pid, found.device.uuid, listed.memory_bytes, kind=listed.kind)

    def on_gpu(self, found: Found, now: datetime) -> Iterator[GpuProcess]:
        listed = listed_on(found)
        busy = self._busy(found, listed, now) if listed else {}
        for pid, one in listed.items():
            took = busy.get(pid, NOT_COUNTED)
            yield GpuProcess(pid, found.device.uuid, one.memory_bytes, took.sm, took.memory, one.kind)

    def keep(self, uuids: Container[str]) -> None:
        self._newest_us = {uuid: at_us for uuid, at_us in self._newest_us.items() if uuid in uuids}

    def _busy(self, found: Found, pids: Iterable[int], now: datetime) -> dict[int, Busy]:
        """Asks only for samples newer than the newest that we saw. A PID without one did nothing; one left out here: nobody can tell."""
        uuid, now_us = found.device.uuid, int(now.timestamp() * 1_000_000)
        since_us = self._newest_us.get(uuid, now_us - FIRST_LOOK_US)
        if since_us > now_us + FIRST_LOOK_US:  # the clock was put back: until it has come round again, all would look idle
            since_us = now_us - FIRST_LOOK_US
        samples = _samples(found.handle, since_us)
        if samples is None:
            return {}
        self._newest_us[uuid] = max((sample.timeStamp for sample in samples), default=since_us)
        return {pid: Busy(0.0, 0.0) for pid in pids} | newest(samples)


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


def listed_on(found: Found) -> dict[int, Listed]:
    """By PID. One that computes and draws is in two lists, with the same memory; that it computes says more."""
    by_pid: dict[int, Listed] = {}
    for kind, listed, listed_before in LISTS:
        processes = ask(listed, found.handle)
        for process in ask(listed_before, found.handle) or () if processes is None else processes:
            known = by_pid.get(process.pid)
            memory_bytes = process.usedGpuMemory
            if memory_bytes is None and known is not None:
                memory_bytes = known.memory_bytes
            by_pid[process.pid] = Listed(kind, memory_bytes)
    return by_pid
