"""Whether a session reaches GPUs that are not its own: by their device files, by CUDA, by NVML. For the isolation probe."""
import contextlib
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpufairy.devices.probe_cuda import Cuda, NotHere, Refused
from gpufairy.devices.probe_nvml import Nvml, NvmlRefused

NVIDIA_MAJOR = 195  # of the kernel's list of devices
MOST_GPUS = 32  # of one machine: so many numbers are tried
OTHER_MODE = stat.S_IFCHR | 0o666


@dataclass(frozen=True, slots=True)
class Own:
    """What was granted."""

    library: str
    gpu: str  # its UUID
    device: str  # of the MIG instance; else as `gpu`
    others: tuple[str, ...] = ()  # UUIDs of GPUs of the same machine


@dataclass(frozen=True, slots=True)
class Reached:
    what: tuple[str, ...]
    words: str = ""


def device_files(own: Own) -> Reached:
    mine = own_minor(own)
    opened = [path for number in range(MOST_GPUS) if number != mine and opens(path := f"/dev/nvidia{number}")]
    return Reached(tuple(opened), "no device file but its own can be opened")


def made_device_files(own: Own) -> Reached:
    """A device file made by oneself, for every number but one's own."""
    mine, reached, made = own_minor(own), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(MOST_GPUS):
            path = f"{folder}/nvidia{number}"
            if number == mine or not makes(path, number):
                continue
            made += 1
            if opens(path):
                reached.append(f"{NVIDIA_MAJOR}:{number}")
    return Reached(tuple(reached), f"{made} could be made, none opened" if made else "none could be made")


def own_minor(own: Own) -> int | None:
    """None: the driver does not tell. Then all are foreign but the only one that is there."""
    with contextlib.suppress(NotHere, NvmlRefused):
        nvml = Nvml()
        handle = nvml.by_uuid(own.gpu)
        if handle is not None and (number := nvml.number("nvmlDeviceGetMinorNumber", handle)) is not None:
            return number
    there = [number for number in range(MOST_GPUS) if Path(f"/dev/nvidia{number}").exists()]
    return there[0] if len(there) == 1 else None


def opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def makes(path: str, number: int) -> bool:
    try:
        os.mknod(path, OTHER_MODE, os.makedev(NVIDIA_MAJOR, number))
    except OSError:
        return False
    return True


def cuda_list(own: Own) -> Reached:
    try:
        seen = Cuda(own.library).devices()
    except Refused as no:
        return Reached((), str(no))
    mine = {uuid.partition("-")[2] for uuid in (own.gpu, own.device)}
    return Reached(tuple(uuid for uuid in seen if uuid not in mine), f"CUDA lists {len(seen)}, its own")


def nvml_list(own: Own) -> Reached:
    nvml = Nvml()
    seen = [nvml.uuid(handle) for handle in nvml.handles()]
    return Reached(tuple(uuid for uuid in seen if uuid not in (own.gpu, own.device)), f"NVML lists {len(seen)}, its own")


def nvml_by_uuid(own: Own) -> Reached:
    if not own.others:
        raise NotHere("there is no other GPU on this machine")
    nvml = Nvml()
    return Reached(tuple(uuid for uuid in own.others if nvml.by_uuid(uuid) is not None), "NVML knows none of the others")


DEVICE_WAYS: dict[str, Callable[[Own], Reached]] = {
    "another GPU's device file": device_files,
    "a device file of one's own making": made_device_files,
    "GPUs that CUDA lists": cuda_list,
    "GPUs that NVML lists": nvml_list,
    "NVML of another GPU by its UUID": nvml_by_uuid,
}
