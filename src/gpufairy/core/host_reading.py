"""Readings of a host: CPUs, memory, disks, network, heat, power. None means not known, never zero."""
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Pressure:
    """The part of the last ten seconds, 0 to 1, in which something (or everything) stood still for want of it."""

    some: float | None = None
    full: float | None = None


@dataclass(frozen=True, slots=True)
class DiskReading:
    device: str
    read_bytes: int  # counters since the host began
    written_bytes: int
    busy_s: float | None = None


@dataclass(frozen=True, slots=True)
class MountReading:
    path: str
    device: str
    kind: str  # "ext4"
    total_bytes: int
    free_bytes: int  # for users
    inodes: int | None = None
    inodes_free: int | None = None


@dataclass(frozen=True, slots=True)
class NetworkReading:
    device: str
    received_bytes: int  # counters since the host began
    sent_bytes: int
    speed_bytes_per_s: int | None = None  # what its link carries, as far as its driver knows


@dataclass(frozen=True, slots=True)
class UserLoad:
    """What one user's processes take of the host."""

    user: str
    processes: int
    cpus: float | None  # used, in CPUs; None: not seen twice yet
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class HostReading:
    at: datetime
    cpus: int | None = None
    cpu_used: float | None = None  # 0 to 1 of all of them
    cores: tuple[float, ...] = ()  # the same, core by core; empty: not known
    load_1m: float | None = None
    cpu_pressure: Pressure = Pressure()
    memory_pressure: Pressure = Pressure()
    io_pressure: Pressure = Pressure()
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    disks: tuple[DiskReading, ...] = ()
    mounts: tuple[MountReading, ...] = ()
    networks: tuple[NetworkReading, ...] = ()
    temperatures_c: tuple[tuple[str, float], ...] = ()  # by sensor
    energy_j: float | None = None  # a counter of the CPU packages, where the machine has it
    power_w: float | None = None  # from it
    up_s: float | None = None  # since the host began
    boot_id: str = ""  # another one each time that it is started; empty: not known
    users: tuple[UserLoad, ...] = ()


DISK_KINDS_LEFT_OUT = ("proc", "sysfs", "tmpfs", "devtmpfs", "overlay", "squashfs", "cgroup", "cgroup2", "autofs", "nsfs", "ramfs")
