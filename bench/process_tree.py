"""What a process and all its children take: CPU time, and memory as two counts that answer two questions."""
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.commands import cpu_s


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_s: float  # since they began
    rss_mb: float  # summed: what two of them share is counted for each
    pss_mb: float  # summed: what is shared is divided among those who share it


def cost_of(pid: int) -> Cost:
    pids = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return Cost(sum(map(cpu_s, pids)), memory_mb(pids, "Rss"), memory_mb(pids, "Pss"))


def memory_mb(pids: list[int], count: str) -> float:
    texts = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    kib = (int(row.split()[1]) for text in texts for row in text.splitlines() if row.startswith(f"{count}:"))
    return sum(kib) * 1024 / 1e6
