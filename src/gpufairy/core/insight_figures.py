"""Figures of many sessions at once, from arrays of readings: what the rules look at. NaN wherever too little is known to say anything."""
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpufairy.core.insight import Pace, SessionLook
from gpufairy.core.insight_limits import Limits
from gpufairy.core.series import Floats

KNOWN_PART = 0.7  # of the steps that should be known: with more of them missing nobody knows what happened meanwhile
UNKNOWN_GPUS = 0.005  # of what is held: more, and the use is not known


@dataclass(frozen=True, slots=True)
class GpuFigures:
    use: float
    use_max: float
    sm_active: float
    power_w: float
    throttled_power: float
    throttled_heat: float
    temperature_c: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over the window after warm-up. Those named as claims: the part of the time in which it was so."""

    known: float  # steps of which the use of its GPUs is known
    gpu: float  # 0 to 1 of what it holds
    cpus: float
    gpu_memory: float  # 0 to 1 of its share
    gpu_memory_low: float  # the least of it
    io_waited: float
    moved_bytes_per_s: float  # read and written
    received_bytes_per_s: float
    received_unevenness: float  # standard deviation by mean
    disk_busy: float
    starved: float
    waits_for_disk: float
    disk_is_full: float  # the node's disk is at its ceiling, and by this session
    waits_for_network: float
    by_one_thread: float
    gpu_idle: float
    cpu_idle: float
    memory_full: float  # of the newest steps
    memory_recent: float  # 0 to 1 of its limit
    rests: float  # steps since it did anything at all
    worked: float  # steps before that in which it worked


def figures_of(looks: Sequence[SessionLook], pace: Pace, limits: Limits) -> list[Figures]:
    if not looks:
        return []
    readings = _Readings(looks, pace, limits)
    columns = readings.columns()
    rows = zip(*(columns[one.name].tolist() for one in fields(Figures)), strict=True)
    return [Figures(*row) for row in rows]


def gpu_figures_of(looks: Sequence[SessionLook], pace: Pace) -> list[tuple[GpuFigures, ...]]:
    """Of each session, in the order of its GPUs."""
    gpus = [(gpu, look) for look in looks for gpu in look.gpus_of]
    if not gpus:
        return [() for _ in looks]
    settled = _settled([look.age_steps for _, look in gpus], pace)[:, -pace.steps :]
    found: list[Floats] = []
    for name in ("utilisation", "utilisation", "sm_active", "power_w", "throttled_power", "throttled_heat", "temperature_c"):
        values = _stacked([gpu.columns for gpu, _ in gpus], name, pace.steps)
        known = settled & ~np.isnan(values)
        found.append(_highest(values, known, settled, pace) if len(found) == 1 else _mean(values, known, settled, pace))
    rows = iter(GpuFigures(*row) for row in zip(*(column.tolist() for column in found), strict=True))
    return [tuple(next(rows) for _ in look.gpus_of) for look in looks]


class _Readings:
    """Arrays of sessions x steps; all of the window but `rests` and `worked`, which look back further."""

    def __init__(self, looks: Sequence[SessionLook], pace: Pace, limits: Limits) -> None:
        self.pace, self.limits = pace, limits
        own, node = [look.own for look in looks], [look.node for look in looks]
        self.whole = {name: _stacked(own, name, pace.back) for name in OWN}
        held, unknown = self.whole["gpus_held"], self.whole["gpus_unknown"]
        with np.errstate(divide="ignore", invalid="ignore"):
            self.gpu_whole = np.where((held > 0) & (unknown <= UNKNOWN_GPUS * held), self.whole["gpus_used"] / held, np.nan)
        self.settled_whole = _settled([look.age_steps for look in looks], pace)
        window = slice(-pace.steps, None)
        self.settled, self.gpu = self.settled_whole[:, window], self.gpu_whole[:, window]
        self.own = {name: self.whole[name][:, window] for name in OWN}
        self.node = {name: _stacked(node, name, pace.steps) for name in OF_NODE}
        self.cpu_part = self.own["cpus"] / np.array([max(look.cpus, 0.001) for look in looks])[:, None]
        self.memory_part = self.own["memory_bytes"] / np.array([max(look.memory_bytes, 1) for look in looks])[:, None]
        shares = np.array([look.gpu_memory_bytes or np.nan for look in looks])[:, None]
        self.gpu_memory = self.own["gpu_memory_bytes"] / shares
        self.links = np.array([np.nan if look.link_bytes_per_s is None else look.link_bytes_per_s for look in looks])[:, None]

    def columns(self) -> dict[str, Floats]:
        return {**self._means(), **self._parts(), **self._memory_full(), **self._rest()}

    def _means(self) -> dict[str, Floats]:
        own, received = self.own, self.own["received_bytes_per_s"]
        mean_received = self._mean(received)
        with np.errstate(divide="ignore", invalid="ignore"):
            unevenness = np.sqrt(self._mean((received - mean_received[:, None]) ** 2)) / mean_received
        known = self.settled & ~np.isnan(self.gpu_memory)
        low = np.where(known, self.gpu_memory, np.inf).min(axis=1)
        return {
            "known": (self.settled & ~np.isnan(self.gpu)).sum(axis=1).astype(float), "gpu": self._mean(self.gpu),
            "cpus": self._mean(own["cpus"]), "gpu_memory": self._mean(self.gpu_memory),
            "gpu_memory_low": np.where(known.any(axis=1), low, np.nan), "io_waited": self._mean(own["io_waited"]),
            "moved_bytes_per_s": self._mean(own["read_bytes_per_s"] + own["written_bytes_per_s"]),
            "received_bytes_per_s": mean_received, "received_unevenness": unevenness, "disk_busy": self._mean(self.node["disk_busy"]),
        }  # fmt: skip

    def _parts(self) -> dict[str, Floats]:
        limits, gpu, cpu = self.limits, self.gpu, self.cpu_part
        cpus, waited, received = (self.own[name] for name in ("cpus", "io_waited", "received_bytes_per_s"))
        moved = self.own["read_bytes_per_s"] + self.own["written_bytes_per_s"]
        node_moved, disk = self.node["read_bytes_per_s"] + self.node["written_bytes_per_s"], self.node["disk_busy"]
        with np.errstate(invalid="ignore"):
            low, calm = gpu < limits.gpu_low, cpu < limits.cpu_calm
            full_link = received >= np.where(np.isnan(self.links), limits.much_received, limits.link_full * self.links)
            full_disk = (disk >= limits.disk_full) & (moved >= limits.disk_own * node_moved) & (moved > 0)
            return {
                "starved": self._part(low & (cpu >= limits.cpu_full), gpu, cpu),
                "waits_for_disk": self._part(low & calm & (waited >= limits.waits), gpu, cpu, waited),
                "disk_is_full": self._part(low & calm & full_disk, gpu, cpu, disk, moved),
                "waits_for_network": self._part(low & calm & full_link, gpu, cpu, received),
                "by_one_thread": self._part(low & (cpus >= limits.one_cpu_least) & (cpus <= limits.one_cpu_most), gpu, cpus),
                "gpu_idle": self._part(gpu < limits.idle, gpu, least=self.pace.idle_least),
                "cpu_idle": self._part(cpus < limits.cpus_idle, cpus, least=self.pace.idle_least),
            }

    def _memory_full(self) -> dict[str, Floats]:
        recent = self.memory_part[:, -self.pace.recent :]
        known = ~np.isnan(recent) & self.settled[:, -self.pace.recent :]
        enough = known.sum(axis=1) >= self.pace.recent - 1  # the newest step may not be whole yet
        with np.errstate(invalid="ignore"):
            full = (known & (recent >= self.limits.memory_full)).sum(axis=1) / np.maximum(1, known.sum(axis=1))
        mean = np.where(known, recent, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))
        return {"memory_full": np.where(enough, full, np.nan), "memory_recent": np.where(enough, mean, np.nan)}

    def _rest(self) -> dict[str, Floats]:
        """How long nothing has happened, by every reading there is: steps of which nothing is known do not count, and must be few."""
        cpus, limits = self.whole["cpus"], self.limits
        known = ~np.isnan(self.gpu_whole) & ~np.isnan(cpus) & self.settled_whole
        with np.errstate(invalid="ignore"):
            still = known & (self.gpu_whole < limits.idle) & (cpus < limits.cpus_idle)
            for name in ("read_bytes_per_s", "written_bytes_per_s", "received_bytes_per_s", "sent_bytes_per_s"):
                still &= ~(self.whole[name] >= limits.little_moved)
            works = (self.gpu_whole >= limits.works) & self.settled_whole
        moving = (known & ~still)[:, ::-1]
        tail = np.where(moving.any(axis=1), moving.argmax(axis=1), known.shape[1])
        in_tail = np.arange(known.shape[1])[None, :] >= known.shape[1] - tail[:, None]
        rests = (still & in_tail).sum(axis=1)
        enough = rests >= KNOWN_PART * (in_tail & self.settled_whole).sum(axis=1)
        return {"rests": np.where(enough, rests, 0).astype(float), "worked": works.sum(axis=1).astype(float)}

    def _mean(self, values: Floats) -> Floats:
        return _mean(values, self.settled & ~np.isnan(values), self.settled, self.pace)

    def _part(self, is_so: Any, *needs: Floats, least: int | None = None) -> Floats:
        """The part of the time in which it was so, or of the newest steps, whichever is less: what is over is not told."""
        known = self.settled.copy()
        for need in needs:
            known &= ~np.isnan(need)
        recent = slice(-self.pace.recent, None)
        count = known.sum(axis=1)
        whole = (is_so & known).sum(axis=1) / np.maximum(1, count)
        newest = (is_so & known)[:, recent].sum(axis=1) / np.maximum(1, known[:, recent].sum(axis=1))
        enough = (count >= (self.pace.least if least is None else least)) & (count >= KNOWN_PART * self.settled.sum(axis=1))
        return np.where(enough & known[:, recent].any(axis=1), np.minimum(whole, newest), np.nan)


OWN = (
    "gpus_held", "gpus_used", "gpus_unknown", "gpu_memory_bytes", "cpus", "memory_bytes", "read_bytes_per_s", "written_bytes_per_s",
    "received_bytes_per_s", "sent_bytes_per_s", "io_waited",
)  # fmt: skip
OF_NODE = ("disk_busy", "read_bytes_per_s", "written_bytes_per_s")


def _stacked(columns: Sequence[Any], name: str, steps: int) -> Floats:
    """Rows of so many steps, the newest last; what is not there is not known."""
    found = [of_one.get(name) for of_one in columns]
    if all(values is not None and len(values) >= steps for values in found):
        return np.array([values[-steps:] for values in found])
    stack = np.full((len(columns), steps), np.nan)
    for place, values in enumerate(found):
        if values is not None and len(values):
            stack[place, -min(len(values), steps) :] = values[-steps:]
    return stack


def _settled(ages: Sequence[int], pace: Pace) -> Any:
    """Which steps lie after the warm-up."""
    first = pace.back - np.array(ages) + pace.warm_up
    return np.arange(pace.back)[None, :] >= first[:, None]


def _mean(values: Floats, known: Any, settled: Any, pace: Pace) -> Floats:
    count = known.sum(axis=1)
    enough = (count >= pace.least) & (count >= KNOWN_PART * settled.sum(axis=1))
    means = np.where(known, values, 0.0).sum(axis=1) / np.maximum(1, count)
    return np.where(enough, means, np.nan)


def _highest(values: Floats, known: Any, settled: Any, pace: Pace) -> Floats:
    count = known.sum(axis=1)
    enough = (count >= pace.idle_least) & (count >= KNOWN_PART * settled.sum(axis=1))
    return np.where(enough, np.where(known, values, -np.inf).max(axis=1), np.nan)
