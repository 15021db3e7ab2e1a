"""What of this machine is ours to hand out: its CPUs and memory, less what affinity and cgroups (v1 and v2) keep from us."""
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
V1_CPU_FOLDERS = ("cpu", "cpu,cpuacct")  # the same controller, mounted under either name


def cpus_milli(root: Path = ROOT, affinity: int | None = None) -> int:
    """In thousandths of a CPU."""
    here = (affinity or len(os.sched_getaffinity(0))) * 1000
    return max(1, min([here, *_cpu_quotas_milli(root)]))


def memory_bytes(root: Path = ROOT) -> int:
    return min([_total_memory_bytes(root), *_memory_limits_bytes(root)])


def _total_memory_bytes(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cpu_quotas_milli(root: Path) -> Iterator[int]:
    for folder in _own_cgroups(root, "cpu"):
        words = _read(folder / "cpu.max").split()  # v2: "50000 100000" or "max 100000"
        if not words:
            words = [_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")]  # v1: -1 for none
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]) > 0:
            yield int(words[0]) * 1000 // int(words[1])


def _memory_limits_bytes(root: Path) -> Iterator[int]:
    for folder in _own_cgroups(root, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdecimal():
            yield int(limit)


def _own_cgroups(root: Path, controller: str) -> Iterator[Path]:
    """Our own cgroup of that controller and all above it: the tightest counts.

    In a container the path is often the host's and not to be found here; the top folder then is our own.
    """
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own = Path(path.strip("/"))
        if ".." in own.parts:
            continue
        for top in _tops(mounts, controllers, controller):
            yield from (top / part for part in (own, *own.parents))


def _tops(mounts: Path, controllers: str, wanted: str) -> tuple[Path, ...]:
    if controllers == "":  # v2, alone or beside v1
        return (mounts, mounts / "unified")
    if wanted not in controllers.split(","):
        return ()
    return tuple(mounts / name for name in (V1_CPU_FOLDERS if wanted == "cpu" else (wanted,)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # no such cgroup or file here, or not ours to read: then it sets us no limit that we know of
        return ""
