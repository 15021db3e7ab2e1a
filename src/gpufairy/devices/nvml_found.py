"""Which GPUs and MIG instances are there, by the driver. What does not change is asked once: names, addresses, how they were cut."""
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.reading import GpuDevice, LostGpu
from gpufairy.devices.kinds import MIB
from gpufairy.devices.nvml_calls import GpuGone, NvmlFailed, ask, need
from gpufairy.devices.nvml_words import kind_of, profile_in

MOST_SLOTS = 64  # of MIG instances on a GPU; the driver says 7 or 8


@dataclass(frozen=True, slots=True)
class Found:
    """A GPU or an instance, with the driver's handle on it."""

    handle: Any
    device: GpuDevice
    part: tuple[int, int] | None = None  # of an instance: the numbers of its GPU instance and its compute instance
    alone: bool = True  # of an instance: no other compute instance shares its GPU instance


@dataclass(frozen=True, slots=True)
class FoundGpu:
    gpu: Found
    instances: tuple[Found, ...] = ()
    has_gpm: bool = False


def count_gpus() -> int:
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        raise NvmlFailed(f"the NVIDIA driver cannot say how many GPUs there are: {error}") from error


def find_gpus(count: int, before: dict[int, str]) -> tuple[list[FoundGpu], list[LostGpu]]:
    """`before`: the UUIDs by index as they were, so that a lost GPU keeps its name."""
    found: list[FoundGpu] = []
    lost: list[LostGpu] = []
    for index in range(count):
        try:
            handle = need(pynvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:  # None: it is there, but not for us
                found.append(find_gpu(index, handle))
        except GpuGone as error:
            lost.append(LostGpu(index, before.get(index), error.detail))
    return found, lost


def find_gpu(index: int, handle: Any) -> FoundGpu:
    uuid, name = need(pynvml.nvmlDeviceGetUUID, handle), need(pynvml.nvmlDeviceGetName, handle)
    if uuid is None:
        raise GpuGone("it has no UUID")
    memory_bytes = total_memory(memory_of(handle, need))
    mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
    mig = mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    pci = ask(pynvml.nvmlDeviceGetPciInfo_v3, handle)
    device = GpuDevice(
        uuid,
        label=str(index),
        index=index,
        kind=kind_of(name or "", (memory_bytes or 0) // MIB),
        memory_bytes=memory_bytes,
        name=name or "",
        bus=pci.busId if pci is not None else "",
        mig=mig,
    )
    support = ask(pynvml.nvmlGpmQueryDeviceSupport, handle)
    gpu = Found(handle, device)
    return FoundGpu(gpu, find_instances(gpu) if mig else (), has_gpm=support is not None and bool(support.isSupportedDevice))


def find_instances(gpu: Found) -> tuple[Found, ...]:
    """Slots are sparse: an empty one says nothing about the next. Each takes 6 ms on an H200, empty or not: look seldom."""
    slots = min(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu.handle) or 0, MOST_SLOTS)
    handles = [ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu.handle, slot) for slot in range(slots)]
    seen = [one for handle in handles if handle is not None and (one := _find_instance(gpu, handle)) is not None]
    shared = [one.part[0] for one in seen if one.part is not None]
    return tuple(replace(one, alone=one.part is not None and shared.count(one.part[0]) == 1) for one in seen)


def _find_instance(gpu: Found, handle: Any) -> Found | None:
    uuid = ask(pynvml.nvmlDeviceGetUUID, handle)
    gpu_instance, compute_instance = ask(pynvml.nvmlDeviceGetGpuInstanceId, handle), ask(pynvml.nvmlDeviceGetComputeInstanceId, handle)
    if uuid is None or gpu_instance is None or compute_instance is None:
        return None  # taken away while we looked
    name = ask(pynvml.nvmlDeviceGetName, handle) or ""
    cut = _cut_of(gpu.handle, gpu_instance)
    device = GpuDevice(
        uuid,
        label=f"{gpu.device.index}_{gpu_instance}_{compute_instance}",
        index=gpu.device.index,
        kind=gpu.device.kind,
        memory_bytes=total_memory(memory_of(handle)),
        name=name,
        bus=gpu.device.bus,
        parent=gpu.device.uuid,
        profile=profile_in(name) or (_profile_of(gpu.handle, cut.profileId) if cut is not None else None),
        start=cut.placement.start if cut is not None else None,
        size=cut.placement.size if cut is not None else None,
    )
    return Found(handle, device, (gpu_instance, compute_instance))


def _cut_of(gpu: Any, gpu_instance: int) -> Any:
    """None for those who are not root: the driver tells only root where an instance lies."""
    handle = ask(pynvml.nvmlDeviceGetGpuInstanceById, gpu, gpu_instance)
    return ask(pynvml.nvmlGpuInstanceGetInfo, handle) if handle is not None else None


def _profile_of(gpu: Any, profile_id: int) -> str | None:
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        profile = ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, number)
        if profile is not None and profile.id == profile_id:
            return profile_in(profile.name)
    return None


def memory_of(handle: Any, asked: Callable[..., Any] = ask) -> Any:
    """`used` of the second version leaves out what the driver keeps for itself, as nvidia-smi does; older drivers have the first alone."""
    memory = asked(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return memory if memory is not None else asked(pynvml.nvmlDeviceGetMemoryInfo, handle)


def total_memory(memory: Any) -> int | None:
    return int(memory.total) if memory is not None else None
