"""What others place by, to the interface of core/scenario_fit.py: FGD, best fit, first fit, packing, dot product, random."""
from collections import Counter

import numpy as np

from bench.openb import WHOLE, Cluster, Pod

COVERED = 0.95  # of all pods: FGD looks at the commonest shapes up to there
SCORE_MAX = 100  # Kubernetes' scale, to which the authors of FGD round
SIGMOID_AT = 1000.0  # thousandths of a GPU: how their score squeezes the growth of fragments


class Placer:
    """Chooses among the nodes that fit; the GPU is the tightest unless a placer knows better."""

    name = "none"

    def prepare(self, cluster: Cluster, hint: list[Pod], seed: int) -> None:
        # By name, not by the order of the file.
        order = sorted(range(cluster.n), key=lambda node: cluster.names[node])
        self.rank = np.empty(cluster.n, dtype=np.int64)
        self.rank[order] = np.arange(cluster.n)

    def place(self, pod: Pod, cluster: Cluster) -> tuple[int, tuple[int, ...]] | None:
        open_to = np.flatnonzero(cluster.feasible(pod))
        if not len(open_to):
            return None
        node = self.choose(pod, cluster, open_to)
        return node, self.devices(pod, cluster, node)

    def choose(self, pod: Pod, cluster: Cluster, open_to: np.ndarray) -> int:
        raise NotImplementedError

    def devices(self, pod: Pod, cluster: Cluster, node: int) -> tuple[int, ...]:
        if pod.num_gpu == 1 and pod.gpu_milli < WHOLE:
            return (cluster.tightest_gpu(node, pod.gpu_milli),)
        return cluster.idle_gpus(node, pod.num_gpu)

    def least(self, cost: np.ndarray, open_to: np.ndarray) -> int:
        """The least cost; among equals the smallest name."""
        ties = open_to[cost == cost.min()]
        return int(ties[self.rank[ties].argmin()])


class Random(Placer):
    name = "random"

    def prepare(self, cluster: Cluster, hint: list[Pod], seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def choose(self, pod: Pod, cluster: Cluster, open_to: np.ndarray) -> int:
        return int(open_to[self.rng.integers(len(open_to))])


class FirstFit(Placer):
    name = "first fit"

    def choose(self, pod: Pod, cluster: Cluster, open_to: np.ndarray) -> int:
        return int(open_to[self.rank[open_to].argmin()])


class BestFit(Placer):
    """The least left over all resources, each as a share of the largest node."""

    name = "best fit"

    def prepare(self, cluster: Cluster, hint: list[Pod], seed: int) -> None:
        super().prepare(cluster, hint, seed)
        self.cpu_unit, self.gpu_unit = float(cluster.cpu_cap.max()), float(cluster.gpu_count.max() * WHOLE)

    def choose(self, pod: Pod, cluster: Cluster, open_to: np.ndarray) -> int:
        cpu = (cluster.cpu_free[open_to] - pod.cpu) / self.cpu_unit
        gpu = (cluster.gpu_free[open_to].sum(axis=1) - pod.num_gpu * pod.gpu_milli) / self.gpu_unit
        return self.least(cpu + gpu, open_to)


class Packing(Placer):
    """GPU packing as its authors score it: GPUs in use first, then idle ones of a node in use, then an idle node."""

    name = "packing"

    def choose(self, pod: Pod, cluster: Cluster, open_to: np.ndarray) -> int:
        left, idle = cluster.gpu_free[open_to], cluster.idle_count[open_to]
        shared = np.where((left >= pod.gpu_milli) & (left < WHOLE), left, WHOLE).min(axis=1)
        in_use = SCORE_MAX // 2 - pod.num_gpu
        score = np.where(shared < WHOLE, SCORE_MAX - shared // 10 // 10, in_use) if pod.num_gpu else np.full(len(open_to), SCORE_MAX)
        score = np.where(idle == cluster.gpu_count[open_to], SCORE_MAX // 3 - idle, score)
        return self.least(-score, open_to)


class DotProduct(Placer):
    """Of the published kind: the most alike demand and room, GPUs in one dimension."""

    name = "dot product"

    def prepare(self, cluster: Cluster, hint: list[Pod], seed: int) -> None:
        super().prepare(cluster, hint, seed)
        self.gpus = np.maximum(cluster.gpu_count * WHOLE, 1)

    def choose(self, pod: Pod, cluster: Cluster, open_to: np.ndarray) -> int:
        cpu_cap, gpu_cap = cluster.cpu_cap[open_to], self.gpus[open_to]
        cpu = pod.cpu / cpu_cap * (cluster.cpu_free[open_to] / cpu_cap)
        gpu = pod.num_gpu * pod.gpu_milli / gpu_cap * (cluster.gpu_free[open_to].sum(axis=1) / gpu_cap)
        return self.least(cpu + gpu, open_to)


class Fgd(Placer):
    """Fragmentation gradient descent (USENIX ATC'23), with its authors' rounding and tie-break: without them it falls below best fit."""

    name = "FGD"

    def prepare(self, cluster: Cluster, hint: list[Pod], seed: int) -> None:
        super().prepare(cluster, hint, seed)
        counts = Counter((pod.cpu, pod.num_gpu, pod.gpu_milli, pod.models) for pod in hint)
        covered, shapes = 0, []
        for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0][:3], sorted(item[0][3]))):
            if covered >= COVERED * len(hint):
                break
            shapes.append((shape, count))
            covered += count
        self.cpu = np.array([shape[0] for shape, _ in shapes])
        self.num = np.array([shape[1] for shape, _ in shapes])
        self.milli = np.array([shape[2] for shape, _ in shapes])
        self.weight = np.array([count for _, count in shapes], dtype=float) / max(covered, 1)
        self.allowed = {model: np.array([not shape[3] or model in shape[3] for shape, _ in shapes]) for model in set(cluster.model)}
        self.seen: dict[tuple, tuple[int, int]] = {}
        self.known: dict[tuple, tuple[int, np.ndarray, np.ndarray]] = {}
        self.fragments_of: dict[tuple, float] = {}

    def choose(self, pod: Pod, cluster: Cluster, open_to: np.ndarray) -> int:
        key = (pod.cpu, pod.num_gpu, pod.gpu_milli)
        done, cost, device = self.known.get(key) or (0, np.zeros(cluster.n), np.zeros(cluster.n, dtype=np.int64))
        for node in set(cluster.log[done:]) if key in self.known else range(cluster.n):
            cost[node], device[node] = self.growth(cluster, node, key)
        self.known[key] = (len(cluster.log), cost, device)
        node = self.least(cost[open_to], open_to)
        self.device = int(device[node])
        return node

    def devices(self, pod: Pod, cluster: Cluster, node: int) -> tuple[int, ...]:
        if pod.num_gpu == 1 and pod.gpu_milli < WHOLE:
            return (self.device,)
        return cluster.idle_gpus(node, pod.num_gpu)

    def growth(self, cluster: Cluster, node: int, shape: tuple[int, int, int]) -> tuple[int, int]:
        """The rounded growth of fragments (lower is better), and the device."""
        left = tuple(cluster.gpu_free[node, : cluster.gpu_count[node]].tolist())
        free = int(cluster.cpu_free[node])
        key = (cluster.model[node], free, left, *shape)
        if key not in self.seen:
            self.seen[key] = self._growth(cluster.model[node], free, left, shape)
        return self.seen[key]

    def _growth(self, model: str, free: int, left: tuple[int, ...], shape: tuple[int, int, int]) -> tuple[int, int]:
        cpu, num, milli = shape
        before = self.fragments(model, free, left)
        if num == 1 and milli < WHOLE:
            tried = [(self._score(before, self.fragments(model, free - cpu, _with(left, (gpu,), milli))), room, gpu)
                     for gpu, room in enumerate(left) if room >= milli]  # fmt: skip
            best = min(tried, default=(0, 0, 0), key=lambda one: (one[0], one[2]))
            return best[0], best[2]
        idle = [gpu for gpu, room in enumerate(left) if room == WHOLE][:num]
        return self._score(before, self.fragments(model, free - cpu, _with(left, tuple(idle), milli))), -1

    @staticmethod
    def _score(before: float, after: float) -> int:
        """Lower is better here; they take the sigmoid of the shrinkage in GPUs and round down."""
        return -int(SCORE_MAX / (1 + np.exp((after - before) / SIGMOID_AT)))

    def fragments(self, model: str, free: int, left: tuple[int, ...]) -> float:
        key = (model, free, tuple(sorted(left)))
        if key not in self.fragments_of:
            self.fragments_of[key] = self._fragments(model, free, left)
        return self.fragments_of[key]

    def _fragments(self, model: str, free: int, left: tuple[int, ...]) -> float:
        room = np.array(left)
        enough = room[None, :] >= np.maximum(self.milli, 1)[:, None]
        fits = (self.cpu <= free) & self.allowed[model] & (enough.sum(axis=1) >= self.num) & (self.num > 0)
        too_small = np.where(enough, 0, room[None, :]).sum(axis=1)
        return float(self.weight @ np.where(fits, too_small, room.sum()))


def _with(left: tuple[int, ...], gpus: tuple[int, ...], milli: int) -> tuple[int, ...]:
    return tuple(room - milli if gpu in gpus else room for gpu, room in enumerate(left))


ALL = (Fgd, FirstFit, BestFit, Packing, DotProduct, Random)
