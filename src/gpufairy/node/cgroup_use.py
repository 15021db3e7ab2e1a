"""What one container takes of the host, by the kernel's own account of its cgroup: versions 1 and 2."""
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.cgroup import CgroupPath, whole_container
from gpufairy.node.host_files import read_number, read_text

ROOT = Path("/")
V1_CPU_FOLDERS = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")  # the same controller, mounted under any of these names


@dataclass(frozen=True, slots=True)
class CgroupUse:
    cpu_s: float | None = None  # a counter, since the container began
    memory_bytes: int | None = None  # without the file cache that the kernel would give back first


def use_of(cgroup_text: str, container_id: str, root: Path = ROOT) -> CgroupUse:
    """Of the container that a process is in, all of its processes together, by the text of that process' /proc/PID/cgroup."""
    lines = [line for line in whole_container(cgroup_text, container_id) if ".." not in line.path.split("/")]
    top = f"{str(root).rstrip('/')}/sys/fs/cgroup"
    cpu = next((seconds for line in lines for folder in _folders(top, line, "cpuacct") if (seconds := _cpu_s(folder)) is not None), None)
    memory = next((size for line in lines for folder in _folders(top, line, "memory") if (size := _memory(folder)) is not None), None)
    return CgroupUse(cpu, memory)


@dataclass(frozen=True, slots=True)
class CgroupIo:
    """Counters, since the container began."""

    read_bytes: int | None = None
    written_bytes: int | None = None
    waited_s: float | None = None  # in which any of its processes stood still for a disk


def io_of(cgroup_text: str, container_id: str, root: Path = ROOT) -> CgroupIo:
    """As `use_of`. Version 1 does not count for how long its processes waited."""
    lines = [line for line in whole_container(cgroup_text, container_id) if ".." not in line.path.split("/")]
    top = f"{str(root).rstrip('/')}/sys/fs/cgroup"
    for folder in (folder for line in lines for folder in _folders(top, line, "blkio")):
        moved = _v2_moved(read_text(f"{folder}/io.stat")) or _v1_moved(read_text(f"{folder}/blkio.throttle.io_service_bytes"))
        if moved is not None:
            return CgroupIo(*moved, _waited_s(read_text(f"{folder}/io.pressure")))
    return CgroupIo()


def _v2_moved(text: str) -> tuple[int, int] | None:
    """`8:0 rbytes=1 wbytes=2 …`, a line for each disk that was used."""
    pairs = [pair.partition("=")[::2] for line in text.split("\n") for pair in line.split(" ")[1:]]
    counts = [(name, int(value)) for name, value in pairs if name in ("rbytes", "wbytes") and value.isdecimal()]
    if not counts:
        return None
    return sum(value for name, value in counts if name == "rbytes"), sum(value for name, value in counts if name == "wbytes")


def _v1_moved(text: str) -> tuple[int, int] | None:
    """`8:0 Read 1`, `8:0 Write 2`, and sums that are left out."""
    rows = [line.split(" ") for line in text.split("\n")]
    counts = [(row[1], int(row[2])) for row in rows if len(row) == 3 and row[1] in ("Read", "Write") and row[2].isdecimal()]
    if not counts:
        return None
    return sum(value for name, value in counts if name == "Read"), sum(value for name, value in counts if name == "Write")


def _waited_s(text: str) -> float | None:
    """`some avg10=0.00 … total=MICROSECONDS`."""
    some = next((line for line in text.split("\n") if line.startswith("some ")), "")
    total = some.partition(" total=")[2]
    return int(total) / 1e6 if total.isdecimal() else None


def _folders(top: str, line: CgroupPath, controller: str) -> Iterator[str]:
    if not line.controllers:  # version 2, alone or beside version 1
        yield from (f"{top}/{line.path}", f"{top}/unified/{line.path}")
    elif controller in line.controllers:
        mounts = V1_CPU_FOLDERS if controller == "cpuacct" else (controller,)
        yield from (f"{top}/{mount}/{line.path}" for mount in mounts)


def _cpu_s(folder: str) -> float | None:
    nanoseconds = read_number(f"{folder}/cpuacct.usage")
    if nanoseconds is not None:
        return nanoseconds / 1e9
    microseconds = _field(f"{folder}/cpu.stat", "usage_usec")
    return None if microseconds is None else microseconds / 1e6


def _memory(folder: str) -> int | None:
    v1 = read_number(f"{folder}/memory.usage_in_bytes")
    used = read_number(f"{folder}/memory.current") if v1 is None else v1
    if used is None:
        return None
    cache = _field(f"{folder}/memory.stat", "inactive_file" if v1 is None else "total_inactive_file")
    return max(0, used - (cache or 0))


def _field(path: str, name: str) -> int | None:
    for line in read_text(path).split("\n"):
        word, _, value = line.partition(" ")
        if word == name and value.isdecimal():
            return int(value)
    return None
