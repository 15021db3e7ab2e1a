"""The NVIDIA GPUs of this machine, once, at the start. Asked by another process, so that a hung driver costs seconds at most."""
import contextlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance, table_of
from gpufairy.core.node import Gpu
from gpufairy.core.reading import GpuDevice, GpuSample
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.devices.nvml_exits import NO_DRIVER
from gpufairy.devices.nvml_source import PROGRAM
from gpufairy.devices.sample_line import from_line

LONGEST_ANSWER_S = 20.0  # a driver that is being loaded takes about ten
LONGEST_END_S = 1.0


@dataclass(frozen=True, slots=True)
class Nvidia:
    gpus: tuple[Gpu, ...] = ()
    driver_cuda: str | None = None  # the highest CUDA version that the driver takes
    trouble: str = ""  # why nothing was found though there should be something


def found_nvidia(env: Mapping[str, str] | None = None, limit_s: float = LONGEST_ANSWER_S) -> Nvidia:
    try:
        code, line = _answer(env, limit_s)
    except subprocess.TimeoutExpired:
        return Nvidia(trouble=f"the NVIDIA driver has not answered for {limit_s:.0f} s (NVML call hung). See `dmesg`.")
    if code == NO_DRIVER:
        return Nvidia()
    try:
        told = from_line(line)
    except BadInput as error:
        return Nvidia(trouble=f"the process that asks the NVIDIA driver ended with code {code}: {error.detail}")
    if isinstance(told, str):
        return Nvidia(trouble=told)
    gpus = gpus_of(told)
    lost = "; ".join(f"GPU {gone.index} does not answer: {gone.why}" for gone in told.lost)
    return Nvidia(gpus, told.driver_cuda, "" if gpus else lost)


def _answer(env: Mapping[str, str] | None, limit_s: float) -> tuple[int, bytes]:
    asking = subprocess.Popen(
        (*PROGRAM, "--once"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, **(env or {})}, start_new_session=True
    )
    try:
        line, _ = asking.communicate(timeout=limit_s)
        return asking.returncode, line
    except subprocess.TimeoutExpired:
        asking.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            asking.communicate(timeout=LONGEST_END_S)  # not for ever: one that is stuck in the kernel cannot be killed
        raise


def gpus_of(sample: GpuSample) -> tuple[Gpu, ...]:
    """One whose memory the driver does not tell cannot be shared out, so it is not offered."""
    instances = [device for device in sample.devices if device.parent is not None]
    return tuple(
        _gpu(device, device.memory_bytes, [one for one in instances if one.parent == device.uuid])
        for device in sample.devices
        if device.parent is None and device.memory_bytes is not None
    )


def _gpu(device: GpuDevice, memory_bytes: int, instances: Iterable[GpuDevice]) -> Gpu:
    if not device.mig:
        return Gpu(device.index, device.uuid, device.kind, memory_bytes)
    # Where an instance lies is its name when it is handed out; the driver tells that to root alone.
    cut = tuple(
        MigInstance(one.profile, one.start, one.size, one.uuid)
        for one in instances
        if one.profile is not None and one.start is not None and one.size is not None
    )
    table = mig_tables().get(device.kind) or table_of(cut)
    return Gpu(device.index, device.uuid, device.kind, memory_bytes, mig=table, instances=cut)
