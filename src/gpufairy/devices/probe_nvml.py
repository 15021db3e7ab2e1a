"""NVML by ctypes, for the isolation probe: what it lists in a session, and what it tells of the GPU. Light: it loads nothing else."""
import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

from gpufairy.core.tried import ProbeFacts
from gpufairy.devices.probe_cuda import NotHere, find_library

SONAME = "libnvidia-ml.so.1"
NOT_FOUND = 6
TEXT_BYTES = 96
CORES_EACH = {7: 64, 8: 128, 9: 128, 10: 128, 11: 128, 12: 128}  # of a multiprocessor, by compute capability
CORES_OF = {(8, 0): 64}


class NvmlRefused(Exception):
    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: NVML error {code}")
        self.code = code


class Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class Attributes(ctypes.Structure):
    _fields_ = (
        ("multiprocessors", c_uint), ("copy", c_uint), ("decoders", c_uint), ("encoders", c_uint), ("jpeg", c_uint), ("ofa", c_uint),
        ("gpu_slices", c_uint), ("compute_slices", c_uint), ("memory_mib", c_ulonglong),
    )  # fmt: skip


class Nvml:
    def __init__(self) -> None:
        self._library = ctypes.CDLL(find_library(SONAME))
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name, None)
        if function is None:
            raise NotHere(f"this NVML has no {name}")
        if code := function(*arguments):
            raise NvmlRefused(name, code)

    def driver(self) -> str:
        text = ctypes.create_string_buffer(TEXT_BYTES)
        self.call("nvmlSystemGetDriverVersion", text, c_uint(TEXT_BYTES))
        return text.value.decode(errors="replace")

    def handles(self) -> Iterator[c_void_p]:
        """Of GPUs, and of the MIG instances on them."""
        count = c_uint()
        self.call("nvmlDeviceGetCount_v2", byref(count))
        for number in range(count.value):
            handle = c_void_p()
            self.call("nvmlDeviceGetHandleByIndex_v2", c_uint(number), byref(handle))
            yield handle
            yield from self.instances(handle)

    def instances(self, handle: c_void_p) -> Iterator[c_void_p]:
        count = c_uint()
        try:
            self.call("nvmlDeviceGetMaxMigDeviceCount", handle, byref(count))
        except (NvmlRefused, NotHere):
            return
        for number in range(count.value):
            instance = c_void_p()
            try:
                self.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, c_uint(number), byref(instance))
            except NvmlRefused:
                continue
            yield instance

    def uuid(self, handle: c_void_p) -> str:
        text = ctypes.create_string_buffer(TEXT_BYTES)
        self.call("nvmlDeviceGetUUID", handle, text, c_uint(TEXT_BYTES))
        return text.value.decode(errors="replace")

    def by_uuid(self, uuid: str) -> c_void_p | None:
        """None: there is none of that name."""
        handle = c_void_p()
        try:
            self.call("nvmlDeviceGetHandleByUUID", c_char_p(uuid.encode()), byref(handle))
        except NvmlRefused:
            return None
        return handle

    def memory_bytes(self, handle: c_void_p) -> int:
        memory = Memory()
        self.call("nvmlDeviceGetMemoryInfo", handle, byref(memory))
        return int(memory.total)

    def number(self, name: str, handle: c_void_p) -> int | None:
        value = c_uint()
        try:
            self.call(name, handle, byref(value))
        except (NvmlRefused, NotHere):
            return None
        return value.value

    def whole_sms(self, handle: c_void_p) -> int | None:
        """From its cores: of multiprocessors, CUDA tells a session what it may have, and NVML nothing."""
        cores, major, minor = self.number("nvmlDeviceGetNumGpuCores", handle), c_int(), c_int()
        try:
            self.call("nvmlDeviceGetCudaComputeCapability", handle, byref(major), byref(minor))
        except (NvmlRefused, NotHere):
            return None
        each = CORES_OF.get((major.value, minor.value)) or CORES_EACH.get(major.value)
        return None if cores is None or each is None or cores % each else cores // each

    def instance_sms(self, handle: c_void_p) -> int | None:
        found = Attributes()
        try:
            self.call("nvmlDeviceGetAttributes_v2", handle, byref(found))
        except (NvmlRefused, NotHere):
            return None
        return int(found.multiprocessors)


def facts_of(gpu: str, device: str) -> ProbeFacts:
    """`device`: the MIG instance, or the GPU itself."""
    nvml = Nvml()
    whole = nvml.by_uuid(gpu)
    part = nvml.by_uuid(device) if device != gpu else None
    whole_sms, part_sms = None if whole is None else nvml.whole_sms(whole), None if part is None else nvml.instance_sms(part)
    return ProbeFacts(nvml.driver(), whole_sms, part_sms)
