"""Alibaba's GPU trace as a cluster that pods arrive at, in the protocol of core/scenario_fit.py. It knows no placer.

Data: cluster-trace-gpu-v2023 as carried by hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0), see NOTICE.
"""
import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "data" / "openb"
WORKLOADS = ("default", "multigpu30", "gpushare60")
WHOLE = 1000  # thousandths of one GPU
INFLATED_TO = 1.3  # of all GPUs: what the published experiment asks for in total
ANY_MODEL: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pod:
    cpu: int
    memory: int
    num_gpu: int
    gpu_milli: int
    models: frozenset[str] = ANY_MODEL  # empty: any will do
    duration: float = 0.0

    @property
    def gpus(self) -> float:
        return self.num_gpu * self.gpu_milli / WHOLE


@dataclass(frozen=True, slots=True)
class Machine:
    cpu: int
    memory: int
    gpus: int
    model: str


class Cluster:
    """What a placer may look at, and `take` and `give_back`, which it may not call."""

    def __init__(self, machines: list[Machine], names: list[str]) -> None:
        self.n = len(machines)
        self.names = names
        self.model = [machine.model for machine in machines]
        self.gpu_count = np.array([machine.gpus for machine in machines], dtype=np.int64)
        self.cpu_cap = np.array([machine.cpu for machine in machines], dtype=np.int64)
        self.cpu_free = self.cpu_cap.copy()
        self.mem_free = np.array([machine.memory for machine in machines], dtype=np.int64)
        self.gpu_free = np.where(np.arange(self.gpu_count.max())[None, :] < self.gpu_count[:, None], WHOLE, 0).astype(np.int64)
        self.largest_left = self.gpu_free.max(axis=1)
        self.idle_count = self.gpu_count.copy()
        self.log: list[int] = []  # nodes whose room changed, in order
        self._of_models: dict[frozenset[str], np.ndarray] = {}

    def feasible(self, pod: Pod) -> np.ndarray:
        fits = self.cpu_free >= pod.cpu
        fits &= self.mem_free >= pod.memory
        if pod.models:
            fits &= self._may_run_on(pod.models)
        if pod.num_gpu > 1 or pod.gpu_milli == WHOLE:
            fits &= self.idle_count >= pod.num_gpu
        elif pod.num_gpu:
            fits &= self.largest_left >= pod.gpu_milli
        return fits

    def fits_on(self, pod: Pod, node: int) -> bool:
        if self.cpu_free[node] < pod.cpu or self.mem_free[node] < pod.memory or (pod.models and self.model[node] not in pod.models):
            return False
        if pod.num_gpu > 1 or pod.gpu_milli == WHOLE:
            return bool(self.idle_count[node] >= pod.num_gpu)
        return bool(self.largest_left[node] >= pod.gpu_milli)

    def tightest_gpu(self, node: int, milli: int) -> int:
        left = self.gpu_free[node, : self.gpu_count[node]]
        return int(np.where(left >= milli, left, WHOLE + 1).argmin())

    def idle_gpus(self, node: int, count: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.gpu_free[node] == WHOLE)[:count].tolist())

    def take(self, pod: Pod, node: int, gpus: tuple[int, ...]) -> None:
        """A placer that breaks the rules is a bug, not a low figure."""
        left = self.gpu_free[node]
        assert len(set(gpus)) == pod.num_gpu, (pod, gpus)
        assert self.cpu_free[node] >= pod.cpu, (pod, node)
        assert self.mem_free[node] >= pod.memory, (pod, node)
        assert not pod.models or self.model[node] in pod.models, (pod, node)
        assert all(left[gpu] >= pod.gpu_milli for gpu in gpus), (pod, node, gpus)
        self._change(pod, node, gpus, -1)

    def give_back(self, pod: Pod, node: int, gpus: tuple[int, ...]) -> None:
        self._change(pod, node, gpus, 1)

    def _change(self, pod: Pod, node: int, gpus: tuple[int, ...], sign: int) -> None:
        self.cpu_free[node] += sign * pod.cpu
        self.mem_free[node] += sign * pod.memory
        left = self.gpu_free[node]
        for gpu in gpus:
            left[gpu] += sign * pod.gpu_milli
        if gpus:
            now = left.tolist()
            self.largest_left[node] = max(now)
            self.idle_count[node] = now.count(WHOLE)
        self.log.append(node)

    def _may_run_on(self, models: frozenset[str]) -> np.ndarray:
        if models not in self._of_models:
            self._of_models[models] = np.array([model in models for model in self.model])
        return self._of_models[models]


def machines() -> list[Machine]:
    with (HERE / "openb_node_list_gpu_node.csv").open() as rows:
        return [Machine(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"]) for row in csv.DictReader(rows)]


def pods(workload: str) -> list[Pod]:
    with (HERE / f"openb_pod_list_{workload}.csv").open() as rows:
        return [_pod(row) for row in csv.DictReader(rows)]


def _pod(row: dict[str, str]) -> Pod:
    models = frozenset(model for model in (row.get("gpu_spec") or "").split("|") if model)
    began, ended = row.get("scheduled_time") or row.get("creation_time"), row.get("deletion_time")
    lasted = float(ended) - float(began) if began and ended else 0.0
    return Pod(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), int(row["gpu_milli"]), models, max(lasted, 0.0))


def dealt(there: list[Machine], seed: int) -> Cluster:
    """Names are dealt at random: an order of the file is nothing a placer may lean on."""
    names = [f"node-{place:04d}" for place in np.random.default_rng(seed).permutation(len(there))]
    return Cluster(there, names)


def arrivals(workload: list[Pod], gpus: int, seed: int) -> list[Pod]:
    """Shuffled, then drawn again until 130 % of the GPUs are asked for; a workload that asks for more is cut there."""
    rng = np.random.default_rng(seed)
    coming = [workload[place] for place in rng.permutation(len(workload))]
    asked = np.cumsum([pod.gpus for pod in coming])
    if asked[-1] > INFLATED_TO * gpus:
        return coming[: int(np.searchsorted(asked, INFLATED_TO * gpus)) + 1]
    total = float(asked[-1])
    while total < INFLATED_TO * gpus:
        coming.append(workload[int(rng.integers(len(workload)))])
        total += coming[-1].gpus
    return coming


def allotted_at(placer, workload: list[Pod], there: list[Machine], seed: int, hint: bool = True) -> dict[int, float]:
    """GPU allotted, % of all, as a mean over the arrivals that round to 100 and 130 % asked. Nothing departs."""
    cluster = dealt(there, seed)
    gpus = int(cluster.gpu_count.sum())
    placer.prepare(cluster, workload if hint else [], seed)
    asked = allotted = 0.0
    seen: dict[int, list[float]] = {100: [], 130: []}
    for pod in arrivals(workload, gpus, seed):
        asked += pod.gpus
        found = placer.place(pod, cluster)
        if found is not None:
            cluster.take(pod, *found)
            allotted += pod.gpus
        percent = round(asked / gpus * 100)
        if percent in seen:
            seen[percent].append(allotted / gpus * 100)
    return {percent: float(np.mean(values)) for percent, values in seen.items()}
