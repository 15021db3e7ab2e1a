"""Pods that come and go: a replay with durations in steady state, where what does not fit waits. It judges any placer."""
import heapq
from dataclasses import dataclass, field, replace

import numpy as np

from bench.openb import WHOLE, Cluster, Machine, Pod, dealt
from bench.placers import Fgd

LOAD = 1.0  # of all GPUs, asked for on average: a cluster as busy as it can be, where every GPU that cannot be used is a wait
SAMPLED_EACH = 250  # arrivals between two looks at fragments


@dataclass(frozen=True, slots=True)
class Steady:
    allotted_percent: float  # of all GPUs, mean over time
    waited_s: float  # mean over arrivals
    waited_p95_s: float
    fragments_percent: float  # of all GPUs: free, and of no use to what comes (FGD's measure)


@dataclass(slots=True)
class Replay:
    placer: object
    cluster: Cluster
    now: float = 0.0
    order: int = 0
    ends: list[tuple[float, int, Pod, int, tuple[int, ...]]] = field(default_factory=list)
    waiting: list[tuple[float, Pod]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    gpus: float = 0.0
    gpu_seconds: float = 0.0

    def advance(self, to: float) -> None:
        while self.ends and self.ends[0][0] <= to:
            at, _, pod, node, gpus = heapq.heappop(self.ends)
            self._pass(at)
            self.cluster.give_back(pod, node, gpus)
            self.gpus -= pod.gpus
            self._try_waiting(node)
        self._pass(to)

    def arrive(self, pod: Pod) -> None:
        if not self._start(pod, self.placer.place(pod, self.cluster), since=self.now):
            self.waiting.append((self.now, pod))

    def _try_waiting(self, node: int) -> None:
        """In turn; only the node that got room back can make a difference."""
        choose = getattr(self.placer, "place_again", self.placer.place)
        still = []
        for since, pod in self.waiting:
            if not self.cluster.fits_on(pod, node) or not self._start(pod, choose(pod, self.cluster), since):
                still.append((since, pod))
        self.waiting = still

    def _start(self, pod: Pod, found: tuple[int, tuple[int, ...]] | None, since: float) -> bool:
        if found is None:
            return False
        self.cluster.take(pod, *found)
        self.gpus += pod.gpus
        self.order += 1
        self.waits.append(self.now - since)
        heapq.heappush(self.ends, (self.now + pod.duration, self.order, pod, *found))
        return True

    def _pass(self, to: float) -> None:
        self.gpu_seconds += self.gpus * (to - self.now)
        self.now = to


def replay(placer: object, mixes: list[list[Pod]], there: list[Machine], seed: int, pods: int) -> Steady:
    """`mixes`: after each other, so many pods in all; several: the mix changes on the way. Known beforehand is the first alone."""
    cluster, rng = dealt(there, seed), np.random.default_rng(seed)
    total = float(cluster.gpu_count.sum())
    placer.prepare(cluster, mixes[0], seed)
    run = Replay(placer, cluster)
    for pod in standing(mixes[0], LOAD * total, rng):
        run.arrive(pod)
    run.waits.clear()
    began, run.gpu_seconds, fragments = run.now, 0.0, []
    for mix in mixes:
        judge = Fgd()
        judge.prepare(cluster, mix, seed)
        pause = np.mean([pod.gpus * pod.duration for pod in mix]) / (LOAD * total)
        for number in range(pods // len(mixes)):
            run.advance(run.now + float(rng.exponential(pause)))
            run.arrive(mix[int(rng.integers(len(mix)))])
            if number % SAMPLED_EACH == 0:
                fragments.append(fragments_percent(judge, cluster))
    waits = [*run.waits, *(run.now - since for since, _ in run.waiting)]
    allotted = run.gpu_seconds / (run.now - began) / total * 100
    return Steady(allotted, float(np.mean(waits)), float(np.quantile(waits, 0.95)), float(np.mean(fragments)))


def standing(mix: list[Pod], gpus: float, rng: np.random.Generator) -> list[Pod]:
    """Whom one finds at a moment of a long life: the long-lived more often, each somewhere within its time."""
    lasts = np.array([pod.duration for pod in mix])
    drawn = rng.choice(len(mix), size=4 * int(gpus) + len(mix), p=lasts / lasts.sum())
    there: list[Pod] = []
    for place in drawn.tolist():
        if gpus <= 0:
            break
        there.append(replace(mix[place], duration=mix[place].duration * float(rng.uniform())))
        gpus -= mix[place].gpus
    return there


def fragments_percent(judge: Fgd, cluster: Cluster) -> float:
    there = zip(cluster.model, cluster.cpu_free.tolist(), cluster.gpu_free.tolist(), cluster.gpu_count.tolist(), strict=True)
    lost = sum(judge.fragments(model, free, tuple(left[:count])) for model, free, left, count in there)
    return lost / (float(cluster.gpu_count.sum()) * WHOLE) * 100
