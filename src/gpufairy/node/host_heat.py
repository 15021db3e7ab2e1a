"""A host's temperatures, and what its CPU packages draw. Sensors of disks are asked through the disk, which may be stuck: so aside."""
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.node.aside import Aside
from gpufairy.node.host_files import names_in, read_number, read_text
from gpufairy.node.proc_text import printable

EVERY_S = 9.5  # ten, on a beat of seconds: heat changes slowly, and asking a disk costs it a command
WAIT_S = 0.3  # for the first look alone
MOST_SENSORS = 64
LEFT_OUT = "Core "  # a CPU's every core: the package says what matters
BROKEN_C = -40.0, 200.0  # sensors that are not there read as far beyond


class Thermometer:
    """`read` gives what was last heard. A sensor that is stuck is left out."""

    def __init__(self, root: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sys, self._monotonic = f"{root}/sys", monotonic
        self._aside: Aside[str, tuple[tuple[str, float], ...]] = Aside(chip_temperatures, "sensors of")
        self._asked_s: float | None = None
        self._known: dict[str, tuple[tuple[str, float], ...]] = {}

    def read(self) -> tuple[tuple[str, float], ...]:
        self._known |= self._aside.late()
        first = self._asked_s is None
        if self._asked_s is None or self._monotonic() - self._asked_s >= EVERY_S:
            self._asked_s = self._monotonic()
            asked = self._chips("hwmon", "") or self._chips("thermal", "thermal_zone")
            self._known = {chip: found for chip, found in self._known.items() if chip in asked and not self._aside.is_open(chip)}
            self._known |= self._aside.answers(asked, WAIT_S if first else 0.0)
        found = [one for chip in sorted(self._known) for one in self._known[chip]]
        return tuple(dict(found[:MOST_SENSORS]).items())

    def _chips(self, kind: str, begins: str) -> list[str]:
        folder = f"{self._sys}/class/{kind}"
        return [f"{folder}/{name}" for name in names_in(folder) if name.startswith(begins)]


def chip_temperatures(folder: str) -> tuple[tuple[str, float], ...]:
    """By `coretemp/Package id 0 hwmon2`: machines have several chips of one kind."""
    if folder.rpartition("/")[2].startswith("thermal_zone"):
        named = [(read_text(f"{folder}/type").strip(), f"{folder}/temp")]
    else:
        inputs = [name.removesuffix("_input") for name in names_in(folder) if name.startswith("temp") and name.endswith("_input")]
        chip = read_text(f"{folder}/name").strip()
        named = [(f"{chip}/{read_text(f'{folder}/{one}_label').strip() or one}", f"{folder}/{one}_input") for one in inputs]
    place = folder.rpartition("/")[2]
    found = [(f"{printable(name, 60)} {place}", read_number(path)) for name, path in named if f"/{LEFT_OUT}" not in name]
    return tuple((name, value / 1000) for name, value in found if value is not None and BROKEN_C[0] < value / 1000 < BROKEN_C[1])


@dataclass(frozen=True, slots=True)
class Energy:
    """None: the machine does not count it, or only root may read it."""

    energy_j: float | None = None
    power_w: float | None = None


class EnergyMeter:
    """The CPU packages' own counters (RAPL), from the first look on. They wrap; the sum here does not."""

    def __init__(self, root: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._monotonic = f"{root}/sys/class/powercap", monotonic
        self._packages = self._find_packages()
        self._before: dict[str, int] = {}
        self._total_uj = 0
        self._read_s: float | None = None

    def read(self) -> Energy:
        now_s = self._monotonic()
        now = {package: value for package in self._packages if (value := read_number(f"{package}/energy_uj")) is not None}
        if not now:
            return Energy()
        # From zero on, not from what they show: after a restart of ours that may be less than before, and would be taken for newly used.
        added_uj = sum(self._added(package, value) for package, value in now.items())
        same, since_s = now.keys() == self._before.keys(), None if self._read_s is None else now_s - self._read_s
        self._before, self._read_s, self._total_uj = self._before | now, now_s, self._total_uj + added_uj
        return Energy(self._total_uj / 1e6, added_uj / 1e6 / since_s if same and since_s else None)

    def _added(self, package: str, value: int) -> int:
        before = self._before.get(package, value)
        return value - before if value >= before else value + max(0, self._packages[package] - before)

    def _find_packages(self) -> dict[str, int]:
        """With the largest value that each can count to. Not their parts, nor `psys`, which counts the packages once more."""
        names = [name for name in names_in(self._folder) if name.startswith("intel-rapl:") and name.count(":") == 1]
        folders = [f"{self._folder}/{name}" for name in names]
        return {one: read_number(f"{one}/max_energy_range_uj") or 0 for one in folders if read_text(f"{one}/name").startswith("package")}
