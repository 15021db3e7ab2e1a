"""Figures with their goals and peers, as people and programs read them."""
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: float | None  # None: could not be measured, `note` says why
    unit: str
    goal: float | None = None
    higher_is_better: bool = True
    peer: str | None = None
    peer_value: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.goal is None or self.value is None:
            return None
        return self.value >= self.goal if self.higher_is_better else self.value <= self.goal

    def plain(self) -> dict[str, Any]:
        return {
            "what": self.what, "value": self.value, "unit": self.unit, "goal": self.goal, "met": self.met,
            "peer": self.peer, "peer_value": self.peer_value, "note": self.note,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    name: str
    figures: list[Figure] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, "machine": machine(), "figures": [figure.plain() for figure in self.figures]}

    def words(self) -> str:
        return "\n".join([f"{self.name} on {machine()}", *(line(figure) for figure in self.figures)])


def line(figure: Figure) -> str:
    value = "not measured" if figure.value is None else f"{figure.value:,.4g} {figure.unit}"
    bound = ">=" if figure.higher_is_better else "<="
    goal = "" if figure.goal is None else f"   goal {bound} {figure.goal:g}: {'met' if figure.met else 'MISSED'}"
    ratio = f" ({figure.value / figure.peer_value:.1f} x)" if figure.value and figure.peer_value else ""
    theirs = "not measured" if figure.peer_value is None else f"{figure.peer_value:,.4g}{ratio}"
    peer = "" if figure.peer is None else f"   {figure.peer}: {theirs}"
    return f"  {figure.what:<58} {value:>18}{goal}{peer}{'   ' + figure.note if figure.note else ''}"


def machine() -> str:
    model = next((row.partition(":")[2].strip() for row in _cpuinfo() if row.startswith("model name")), platform.machine())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {model}, {memory_gib:.0f} GiB, Linux {platform.release()}, Python {platform.python_version()}"


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
