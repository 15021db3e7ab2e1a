"""One GPU's MIG instances by the driver's own library: which profiles it takes and where, what is cut, and cutting. Only mig_apply.py,
a process that can be killed, uses this: any call may hang for ever.
"""
import contextlib
from collections.abc import Callable, Iterator
from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.errors import Conflict, EngineRefused, NoSuchThing
from gpufairy.core.mig import MigInstance, MigProfile, MigTable
from gpufairy.core.mig_plan import whole_profile
from gpufairy.devices.kinds import MIB
from gpufairy.devices.mig_order import CutSeen
from gpufairy.devices.nvml_calls import ask
from gpufairy.devices.nvml_found import MOST_SLOTS
from gpufairy.devices.nvml_processes import NO_INSTANCE, listed_on
from gpufairy.devices.nvml_words import profile_in

SHARED = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
MOST_PLACES = 64  # of one profile; the driver tells seven at most


@dataclass(frozen=True, slots=True)
class Profile:
    id: int  # by which the driver lists it
    profile: MigProfile
    most: int  # so many of it at once


@dataclass(frozen=True, slots=True)
class Standing:
    """A GPU instance, with or without what makes it usable."""

    handle: Any
    id: int
    instance: MigInstance  # without a UUID: it has no compute instance yet


class CutGpu:
    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        try:
            self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError as error:
            raise NoSuchThing(f"the driver knows no GPU {uuid}: {error}", "See `nvidia-smi -L`.") from error
        self._profiles = tuple(self._find_profiles())
        if not self._profiles:
            found = f"the driver names no MIG profile and place on {uuid}: this kind has no MIG, or the server is not root"
            raise EngineRefused(found, "See `sudo nvidia-smi mig -lgipp`.")

    def seen(self) -> CutSeen:
        instances = tuple(one.instance for one in self.standing())
        return CutSeen(self.table(), instances, self.mode())

    def mode(self) -> bool:
        told = ask(pynvml.nvmlDeviceGetMigMode, self._gpu)
        return told is not None and told[0] == pynvml.NVML_DEVICE_MIG_ENABLE

    def set_mode(self, on: bool) -> bool:
        """False: it comes with the next reset of the GPU."""
        with _refusals(f"switching MIG mode {'on' if on else 'off'} on {self.uuid}"):
            status = pynvml.nvmlDeviceSetMigMode(self._gpu, pynvml.NVML_DEVICE_MIG_ENABLE if on else pynvml.NVML_DEVICE_MIG_DISABLE)
        return bool(status == pynvml.NVML_SUCCESS) and self.mode() == on

    def table(self) -> MigTable:
        profiles = tuple(one.profile for one in self._profiles)
        slices = max((start + one.size for one in profiles for start in one.starts), default=0)
        return MigTable(max((one.compute_slices for one in profiles), default=0), slices, profiles)

    def _find_profiles(self) -> Iterator[Profile]:
        """As the driver places them, which differs between kinds and versions. Told to root alone, also while MIG mode is off."""
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            told = ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, self._gpu, number)
            name = None if told is None else profile_in(_text(told.name))
            if told is None or name is None:
                continue
            places = [(place.start, place.size) for place in self._places(told.id)]
            if places:
                starts, size = tuple(sorted(start for start, _ in places)), places[0][1]
                made = MigProfile(name, int(told.sliceCount), int(size), starts, int(told.memorySizeMB) * MIB)
                yield Profile(int(told.id), made, int(told.instanceCount))

    def _places(self, profile_id: int) -> list[Any]:
        places, count = (pynvml.c_nvmlGpuInstancePlacement_t * MOST_PLACES)(), c_uint(MOST_PLACES)
        if ask(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, self._gpu, profile_id, places, byref(count)) is None:
            return []
        return list(places[: count.value])

    def standing(self) -> list[Standing]:
        """Nothing is left out: an instance that is not seen would be cut over."""
        if not self.mode():
            return []
        devices, found = self._devices(), []
        with _refusals(f"reading how {self.uuid} is cut"):
            for profile in self._profiles:
                for handle in _listed(pynvml.nvmlDeviceGetGpuInstances, pynvml.c_nvmlGpuInstance_t, self._gpu, profile.id):
                    told = pynvml.nvmlGpuInstanceGetInfo(handle)
                    uuid = next((ask(pynvml.nvmlDeviceGetUUID, one) for one in devices.get(int(told.id), ())), None) or ""
                    made = MigInstance(profile.profile.name, int(told.placement.start), int(told.placement.size), uuid)
                    found.append(Standing(handle, int(told.id), made))
        return sorted(found, key=lambda one: one.instance.start)

    def _devices(self) -> dict[int, list[Any]]:
        """What computes can be started on, by the GPU instance it is in. Slots are sparse."""
        devices: dict[int, list[Any]] = {}
        for slot in range(min(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, self._gpu) or 0, MOST_SLOTS)):
            handle = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, self._gpu, slot)
            number = None if handle is None else ask(pynvml.nvmlDeviceGetGpuInstanceId, handle)
            if number is not None:
                devices.setdefault(int(number), []).append(handle)
        return devices

    def destroy(self, standing: Standing) -> None:
        with _refusals(f"taking {_where(standing.instance)} away from {self.uuid}"):
            for compute in self._compute_instances(standing.handle):
                pynvml.nvmlComputeInstanceDestroy(compute)
            pynvml.nvmlGpuInstanceDestroy(standing.handle)

    def create(self, wanted: MigInstance) -> None:
        name = whole_profile(wanted.profile)
        profile = next((one for one in self._profiles if one.profile.name == name), None)
        if profile is None:
            raise NoSuchThing(f"the driver has no profile {wanted.profile} on {self.uuid}", "See `nvidia-smi mig -lgip`.")
        # Always with its place: left to itself the driver puts small ones where a large one could begin.
        place = pynvml.c_nvmlGpuInstancePlacement_t(wanted.start, wanted.size)
        with _refusals(f"cutting {_where(wanted)} on {self.uuid}"):
            handle = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(self._gpu, profile.id, byref(place))
        self.make_usable(handle, wanted)

    def make_usable(self, handle: Any, wanted: MigInstance) -> None:
        """A compute instance over all of it: without one it has no UUID, and nobody can compute there."""
        with _refusals(f"making {_where(wanted)} usable on {self.uuid}"):
            pynvml.nvmlGpuInstanceCreateComputeInstance(handle, max(_compute_profiles(handle))[1])

    def _compute_instances(self, handle: Any) -> list[Any]:
        listed = pynvml.nvmlGpuInstanceGetComputeInstances
        return [one for _, number in _compute_profiles(handle) for one in _listed(listed, pynvml.c_nvmlComputeInstance_t, handle, number)]

    def check_unused(self, standing: Standing | None) -> None:
        """Raises Conflict if anybody computes on the instance (None: anywhere on the GPU), or if nobody can tell."""
        pids = self._pids(standing)
        where = self.uuid if standing is None else f"{_where(standing.instance)} of {self.uuid}"
        if pids is None:
            raise Conflict(f"who computes on {where} cannot be read, so it is not touched", "See `nvidia-smi`.")
        if pids:
            raise Conflict(f"{where} is in use by process {', '.join(map(str, pids))}", "Wait for it to end, or stop it.")

    def _pids(self, standing: Standing | None) -> list[int] | None:
        listed = listed_on(self._gpu)
        if listed is None or standing is None:
            return None if listed is None else [one.pid for one in listed]
        if not any(one.part[0] == NO_INSTANCE for one in listed):
            return [one.pid for one in listed if one.part[0] == standing.id]
        on_each = [listed_on(handle) for handle in self._devices().get(standing.id, ())]  # its own list names no instances
        return None if None in on_each else [one.pid for on_one in on_each for one in on_one or ()]


def _compute_profiles(handle: Any) -> list[tuple[int, int]]:
    """Slices and id of each that a GPU instance takes: the largest takes all of it."""
    told = [
        ask(pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, handle, number, SHARED)
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
    ]
    return [(int(one.sliceCount), int(one.id)) for one in told if one is not None]


def _listed(function: Callable[..., Any], kind: Any, *args: Any) -> list[Any]:
    handles, count = (kind * MOST_PLACES)(), c_uint(MOST_PLACES)
    function(*args, handles, byref(count))
    return [handles[at] for at in range(count.value)]


def _text(name: str | bytes) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def _where(one: MigInstance) -> str:
    return f"{one.profile} at slice {one.start}"


@contextlib.contextmanager
def _refusals(what: str) -> Iterator[None]:
    try:
        yield
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
            raise EngineRefused(f"{what}: the driver lets only root do that", "Start the server as root (sudo).") from error
        if error.value == pynvml.NVML_ERROR_IN_USE:
            raise Conflict(f"{what}: the driver says it is in use", "See `nvidia-smi` for who, also monitors such as DCGM.") from error
        raise EngineRefused(f"{what}: the driver says {error}", "See `nvidia-smi mig -lgi` and `dmesg`.") from error
