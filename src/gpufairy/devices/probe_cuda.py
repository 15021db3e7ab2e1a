"""The CUDA driver by ctypes, for the isolation probe: as little of it as the probe needs, and its refusals told apart from its absence."""
import ctypes
import os
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

OUT_OF_MEMORY = 2
# What a driver or an MPS server says to somebody whom it does not let in at all: as good an answer as "out of memory".
SHUT_OUT = {
    46: "the device is not available", 100: "there is no device", 101: "no such device", 805: "MPS does not take the connection",
    806: "MPS gives no answer", 807: "the MPS server is not ready", 808: "MPS has no room for another client",
    809: "MPS has no room for another connection",
}  # fmt: skip
SONAME = "libcuda.so.1"
# Where drivers lie that no cache of the loader knows of: our own Python is told where to look, and looks nowhere else.
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
    "/usr/local/cuda/compat", "/usr/lib/wsl/lib",
)  # fmt: skip
MULTIPROCESSORS, MAJOR, MINOR = 16, 75, 76  # device attributes


class Refused(Exception):
    """The driver said no."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: CUDA error {code}" + (f" ({SHUT_OUT[code]})" if code in SHUT_OUT else ""))
        self.call, self.code = call, code


class NotHere(Exception):
    """The driver, or what is asked of it, is not there."""


class Cuda:
    def __init__(self, library: str) -> None:
        self.library = loaded(library)
        self.device = c_int(0)

    def find(self, name: str) -> Any:
        try:
            return getattr(self.library, name)
        except AttributeError:
            raise NotHere(f"this driver has no {name}") from None

    def call(self, name: str, *arguments: Any) -> None:
        if code := self.find(name)(*arguments):
            raise Refused(name, code)

    def enter(self) -> None:
        """A context on the first device that it is let see."""
        context = c_void_p()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGet", byref(self.device), c_int(0))
        self.call("cuDevicePrimaryCtxRetain", byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def attribute(self, number: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), c_int(number), self.device)
        return value.value

    def devices(self) -> list[str]:
        """UUIDs of all that it is let see."""
        count, device, uuid = c_int(), c_int(), (ctypes.c_ubyte * 16)()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGetCount", byref(count))
        found = []
        for number in range(count.value):
            self.call("cuDeviceGet", byref(device), c_int(number))
            self.call("cuDeviceGetUuid_v2" if hasattr(self.library, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid", byref(uuid), device)
            text = bytes(uuid).hex()
            found.append("-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))
        return found

    def memory_shown(self) -> dict[str, int]:
        """By the function that tells it."""
        free, total, whole = c_size_t(), c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        self.call("cuDeviceTotalMem_v2", byref(whole), self.device)
        return {"cuMemGetInfo": total.value, "cuDeviceTotalMem": whole.value}


def loaded(library: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(library)
    except OSError as error:
        raise NotHere(f"{library} cannot be loaded: {error}") from None


def find_library(name: str) -> str:
    """Its path, so that it is found with any environment; the name itself where that cannot be told. Raises NotHere."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *FOLDERS]
    paths = [name, *(f"{folder}/{name}" for folder in folders if folder and Path(folder, name).exists())]
    words = ""
    for path in paths:
        try:
            ctypes.CDLL(path)
        except OSError as error:
            words = words or str(error)
        else:
            folder = os.path.dirname(mapped(name.partition(".so")[0] + ".so") or "")
            return f"{folder}/{name}" if folder and Path(folder, name).exists() else path
    raise NotHere(f"there is no {name} in the session ({words})")


def mapped(name: str) -> str | None:
    """The file of a library that this process has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if path and os.path.basename(path).startswith(name):
            return f"/{path}"
    return None


Allocate = Callable[[int], int]  # bytes wanted -> bytes had; raises Refused
