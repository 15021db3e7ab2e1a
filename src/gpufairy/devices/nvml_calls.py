"""Asking the driver's library, and what it means when it does not answer. Whoever imports this loads ctypes and nvidia-ml-py:
only the process of nvml_child.py does.
"""
from collections.abc import Callable
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.errors import FairyError


class NvmlFailed(FairyError):
    """The library is there and says nothing of any GPU."""


class NoDriver(NvmlFailed):
    """There is no library of a driver on this machine."""


class GpuGone(FairyError):
    """One GPU does not answer; the others do."""


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """The answer, or None: not supported here, not allowed, not found, or failed for this one value.

    A GPU that is lost says so to every call, so that is no missing value but `GpuGone`.
    """
    try:
        return function(*args)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise GpuGone(str(error)) from error
        return None


NO_VALUE = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_NOT_READY,
    }
)  # fmt: skip


def need(function: Callable[..., Any], *args: Any) -> Any:
    """As `ask`, for what every sound GPU answers: one that fails here (UNKNOWN, RESET_REQUIRED, …) is not to be used."""
    try:
        return function(*args)
    except pynvml.NVMLError as error:
        if error.value in NO_VALUE:
            return None
        raise GpuGone(str(error)) from error


def open_library() -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise NoDriver("no NVIDIA driver: libnvidia-ml.so.1 is not to be found") from error
        raise NvmlFailed(f"the NVIDIA driver cannot be asked: {error}", next_step(error.value)) from error


def next_step(code: int) -> str:
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "The driver was changed under a running system: load its modules again, or reboot."
    if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "Load its module: `modprobe nvidia`; `dmesg` says why it does not."
    return "See `nvidia-smi` and `dmesg`."
