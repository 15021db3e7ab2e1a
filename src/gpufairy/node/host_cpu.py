"""A host's CPUs, load, pressure and memory, from /proc."""
from dataclasses import dataclass

from gpufairy.core.host_reading import Pressure
from gpufairy.node.host_files import read_text

LONGEST_ID = 64  # characters of a boot id; a UUID has 36


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Ticks since the host began."""

    busy: int
    all: int


@dataclass(frozen=True, slots=True)
class CpuUse:
    cpus: int | None = None
    used: float | None = None  # 0 to 1; None: not seen twice yet
    cores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None


class CpuMeter:
    """Use is a difference: the first look tells none."""

    def __init__(self, proc: str) -> None:
        self._path = f"{proc}/stat"
        self._before: dict[str, CpuTimes] = {}
        self._use = CpuUse()

    def read(self) -> CpuUse:
        now = cpu_times(read_text(self._path))
        if not now:
            return CpuUse()
        before, self._before = self._before, now
        cores = {name: share for name in now if (share := _share(before.get(name), now[name])) is not None}
        total = cores.pop("cpu", None)
        if total is None and before and now["cpu"] == before["cpu"]:
            return self._use  # asked again within one tick
        whole = len(cores) == len(now) - 1  # a CPU that was just switched on has no past: then the list would be off by one
        self._use = CpuUse(len(now) - 1, total, tuple(cores.values()) if whole else ())
        return self._use


def cpu_times(stat: str) -> dict[str, CpuTimes]:
    """By `cpu` for all of them, and `cpu0` and so on. What guests took is counted in `user` already."""
    found: dict[str, CpuTimes] = {}
    for line in stat.split("\n"):
        if not line.startswith("cpu"):
            break
        name, *words = line.split()
        if len(words) < 4 or not all(word.isdecimal() for word in words):
            return {}
        ticks = [int(word) for word in words[:8]]
        found[name] = CpuTimes(sum(ticks) - ticks[3] - sum(ticks[4:5]), sum(ticks))
    return found if "cpu" in found else {}


def _share(before: CpuTimes | None, now: CpuTimes) -> float | None:
    """The kernel's idle counters may step back a little."""
    if before is None or now.all <= before.all:
        return None
    return min(1.0, max(0.0, (now.busy - before.busy) / (now.all - before.all)))


def load_1m(proc: str) -> float | None:
    return _number(read_text(f"{proc}/loadavg").partition(" ")[0])


def up_s(proc: str) -> float | None:
    return _number(read_text(f"{proc}/uptime").partition(" ")[0])


def boot_id(proc: str) -> str:
    """Empty: the kernel does not say."""
    return read_text(f"{proc}/sys/kernel/random/boot_id").strip()[:LONGEST_ID]


def pressure(proc: str, of: str) -> Pressure:
    """Of `cpu`, `memory` or `io`. A kernel without it says nothing."""
    shares = {}
    for line in read_text(f"{proc}/pressure/{of}").split("\n"):
        kind, _, rest = line.partition(" avg10=")
        share = _number(rest.partition(" ")[0])
        shares[kind] = None if share is None else share / 100
    return Pressure(shares.get("some"), shares.get("full"))


def memory(proc: str) -> Memory:
    lines = (line.partition(":") for line in read_text(f"{proc}/meminfo").split("\n"))
    kib = {name: int(words[0]) for name, _, rest in lines if (words := rest.split()) and words[0].isdecimal()}
    found = {name: size * 1024 for name, size in kib.items()}
    swap, swap_free = found.get("SwapTotal"), found.get("SwapFree")
    used = None if swap is None or swap_free is None else max(0, swap - swap_free)
    return Memory(found.get("MemTotal"), found.get("MemAvailable"), swap, used)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
