"""GPUs that are not there, for trying gpufairy out. Whatever shows one says that it is simulated."""
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.mig_layout import lay_out
from gpufairy.core.node import Gpu, Node
from gpufairy.core.reading import GpuReading
from gpufairy.devices.kinds import ALIASES, MEMORY_MIB, MIB, kind_named
from gpufairy.devices.mig_tables import mig_tables

MOST_OF_A_KIND = 64
MOST_GPUS = 1024
LONGEST_TEXT = 4096
HOW_TO_WRITE = "Write count x kind, such as 4xA100-40GB,1xH200; add :mig or a cut, :mig=3g.20gb+2g.10gb."
_PART = re.compile(r"(?:([0-9]{1,4})[xX])?([A-Za-z][A-Za-z0-9-]{0,30})")


def parse_simulate(text: str, what: str = "--simulate") -> tuple[Gpu, ...]:
    """`4xA100-40GB,1xH200`; with `:mig` cut on demand, with `:mig=3g.20gb+2g.10gb` cut for good."""
    if len(text) > LONGEST_TEXT:
        raise BadInput(f"{what}: {len(text)} characters are too many", HOW_TO_WRITE)
    gpus: list[Gpu] = []
    for part in text.replace(" ", "").split(","):
        gpus += _gpus(part, what, first=len(gpus))
        if len(gpus) > MOST_GPUS:
            raise BadInput(f"{what}: more than {MOST_GPUS} GPUs on one machine", HOW_TO_WRITE)
    return tuple(gpus)


def _gpus(part: str, what: str, first: int) -> list[Gpu]:
    body, _, mode = part.partition(":")
    match = _PART.fullmatch(body)
    if match is None or not (mode in ("", "mig") or mode.startswith("mig=")):
        raise BadInput(f"{what}: {shown(part)} is no count and kind of GPUs", HOW_TO_WRITE)
    count = int(match[1] or 1)
    if not 1 <= count <= MOST_OF_A_KIND:
        raise BadInput(f"{what}: {shown(part)} is not between 1 and {MOST_OF_A_KIND} of a kind", HOW_TO_WRITE)
    kind = kind_named(match[2])
    if kind is None:
        raise BadInput(f"{what}: {shown(match[2])} is no kind of GPU that can be simulated", _kinds_like(match[2]))
    table = _table(kind, what) if mode else None
    cut = tuple(mode.removeprefix("mig=").split("+")) if mode.startswith("mig=") else None
    return [_gpu(first + number, kind, table, cut) for number in range(count)]


def _table(kind: str, what: str) -> MigTable:
    table = mig_tables().get(kind)
    if table is None:
        raise BadInput(f"{what}: {kind} cannot be cut by MIG", f"These can: {', '.join(mig_tables())}.")
    return table


def _gpu(index: int, kind: str, table: MigTable | None, cut: tuple[str, ...] | None) -> Gpu:
    instances = None
    if table is not None and cut is not None:
        laid_out = lay_out(table, kind, cut_names(cut))
        instances = tuple(
            MigInstance(profile.name, start, profile.size, f"MIG-simulated-{index:04d}-{number:02d}")
            for number, (profile, start) in enumerate(laid_out)
        )
    return Gpu(index, f"GPU-simulated-{index:04d}", kind, MEMORY_MIB[kind] * MIB, simulated=True, mig=table, instances=instances)


def cut_names(parts: Sequence[str]) -> list[str]:
    """Parted at each plus, `1g.5gb+me` came in two: put it together again."""
    names: list[str] = []
    for part in parts:
        if part == "me" and names:
            names[-1] += "+me"
        else:
            names.append(part)
    return names


def _kinds_like(text: str) -> str:
    near = get_close_matches(text.upper(), [*MEMORY_MIB, *ALIASES], n=3, cutoff=0.5)
    return (f"Did you mean {' or '.join(near)}? " if near else "") + f"There are {', '.join(MEMORY_MIB)}."


@dataclass(frozen=True, slots=True)
class Used:
    """What one process has used since it began."""

    start_ticks: int
    cpu_s: float
    resident_bytes: int


class SimulatedLoad:
    """Lets a simulated GPU look as busy as the processes that hold it keep the CPUs."""

    def __init__(self, nodes: Iterable[Node], cores: int | None = None) -> None:
        self._memory_bytes = {gpu.uuid: gpu.memory_bytes for node in nodes for gpu in node.gpus}
        self._cores = cores or len(os.sched_getaffinity(0))
        self._before: dict[int, Used] = {}
        self._sampled_s: float | None = None

    def sample(self, pids_by_gpu: Mapping[str, Sequence[int]], now_s: float) -> dict[str, GpuReading]:
        """`now_s` is of a clock that never runs back. The first sample has nothing to compare with, so its utilisation is not known."""
        used = {pid: found for pid in {pid for pids in pids_by_gpu.values() for pid in pids} if (found := used_by(pid)) is not None}
        elapsed_s = None if self._sampled_s is None else now_s - self._sampled_s
        at = datetime.now(UTC)
        readings = {}
        for uuid, pids in pids_by_gpu.items():
            here = {pid: used[pid] for pid in pids if pid in used}
            busy = None if elapsed_s is None or elapsed_s <= 0 else min(1.0, self._cpu_s(here) / elapsed_s / self._cores)
            resident = sum(process.resident_bytes for process in here.values())
            readings[uuid] = GpuReading(uuid, at, busy, min(resident, self._memory_bytes.get(uuid, resident)), simulated=True)
        self._before, self._sampled_s = used, now_s
        return readings

    def _cpu_s(self, processes: Mapping[int, Used]) -> float:
        """Used since the last sample. A process not seen then, or a new one under an old number, has used all of its time since."""
        spent_s = 0.0
        for pid, process in processes.items():
            before = self._before.get(pid)
            same = before is not None and before.start_ticks == process.start_ticks
            spent_s += process.cpu_s - (before.cpu_s if same and before is not None else 0.0)
        return max(0.0, spent_s)


def used_by(pid: int) -> Used | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read(4096)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = line[line.rfind(b")") + 1 :].split()
    ticks, page_bytes = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return Used(int(fields[19]), (int(fields[11]) + int(fields[12])) / ticks, max(0, int(fields[21])) * page_bytes)
