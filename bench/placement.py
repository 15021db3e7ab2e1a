"""How well pods are packed on Alibaba's GPU trace, beside FGD, best fit, first fit, packing and random; and how fast."""
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from bench import openb, placers, steady
from bench.figures import Figure, Report
from gpufairy.core.scenario_fit import ScenarioFit

SEEDS = (42, 43, 44, 45, 46)
STEADY_SEEDS = (42, 43)
STEADY_PODS = 8000
SPEED_RUNS = 3
SPEED_GOAL = 20_000  # placements a second on one core
EVEN_S = 3600.0  # mean of durations where the trace's own would hardly turn the cluster over
KNOWN = "scenario fit, mix known"


class Online(ScenarioFit):
    """Learns from what arrives and from nothing else."""

    def prepare(self, cluster, hint, seed):
        super().prepare(cluster, (), seed)


PLACERS = {Online.name: Online, KNOWN: ScenarioFit} | {placer.name: placer for placer in placers.ALL}
# Dot product and random are far behind by then, and a queue that grows all the time is slow to replay.
STEADY_PLACERS = [name for name in PLACERS if name not in (placers.DotProduct.name, placers.Random.name)]
STEADY = {
    "default, own durations": (("default",), False),
    "default, even durations": (("default",), True),
    "default, then gpushare60": (("default", "gpushare60"), True),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One run of one placer; plain words, so that another process can do it."""

    placer: str
    workload: str  # or a row of STEADY
    seed: int
    pods: int = 0  # 0: nothing departs


def measure(
    workloads: Sequence[str] = openb.WORKLOADS, seeds: Sequence[int] = SEEDS, steady_pods: int = STEADY_PODS, speed_runs: int = SPEED_RUNS
) -> Report:
    speeds = speed_figures(workloads, speed_runs)  # first, while nothing else of ours runs
    filling = [Case(placer, workload, seed) for workload in workloads for placer in PLACERS for seed in seeds]
    rows = STEADY if steady_pods else ()
    coming = [Case(placer, row, seed, steady_pods) for row in rows for placer in STEADY_PLACERS for seed in STEADY_SEEDS]
    cases = [*coming, *filling]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork")) as pool:
        found = dict(zip(cases, pool.map(run, cases), strict=True))
    figures = [figure for workload in workloads for figure in filling_figures(found, workload, seeds)]
    figures += [figure for row in rows for figure in steady_figures(found, row, steady_pods)]
    return Report("placement", [*figures, *speeds])


def run(case: Case) -> tuple[float, ...]:
    placer, there = PLACERS[case.placer](), openb.machines()
    if not case.pods:
        at = openb.allotted_at(placer, openb.pods(case.workload), there, case.seed)
        return at[100], at[130]
    names, even = STEADY[case.workload]
    seen = steady.replay(placer, [lasting(openb.pods(name), even) for name in names], there, case.seed, case.pods)
    return seen.allotted_percent, seen.waited_s / 60, seen.waited_p95_s / 60, seen.fragments_percent


def lasting(workload: list[openb.Pod], even: bool) -> list[openb.Pod]:
    if not even:
        return [pod for pod in workload if pod.duration]
    rng = np.random.default_rng(0)
    return [replace(pod, duration=float(rng.exponential(EVEN_S))) for pod in workload]


def filling_figures(found: dict[Case, tuple[float, ...]], workload: str, seeds: Sequence[int]) -> list[Figure]:
    figures = []
    for column, percent in enumerate((100, 130)):
        values = {placer: [found[Case(placer, workload, seed)][column] for seed in seeds] for placer in PLACERS}
        figures.append(beside(f"{workload}: GPU allotted, {percent} % asked", "%", values))
    return figures


def steady_figures(found: dict[Case, tuple[float, ...]], row: str, pods: int) -> list[Figure]:
    wanted = [("GPU allotted", "%", True), ("mean wait", "min", False), ("p95 wait", "min", False), ("free, and of no use", "%", False)]
    figures = []
    for column, (what, unit, higher) in enumerate(wanted):
        values = {placer: [found[Case(placer, row, seed, pods)][column] for seed in STEADY_SEEDS] for placer in STEADY_PLACERS}
        figures.append(beside(f"{row}: {what}", unit, values, higher))
    return figures


def beside(what: str, unit: str, values: dict[str, list[float]], higher: bool = True) -> Figure:
    """The goal is to be ahead of all others in the same run."""
    mean = {placer: statistics.fmean(of_one) for placer, of_one in values.items()}
    others = [mean[placer.name] for placer in placers.ALL if placer.name in mean]
    shown = [f"{placer} {mean[placer]:.2f}±{statistics.pstdev(values[placer]):.2f}" for placer in values]
    return Figure(
        what, mean[Online.name], unit, goal=max(others) if higher else min(others), higher_is_better=higher,
        peer=placers.Fgd.name, peer_value=mean[placers.Fgd.name], note=", ".join(shown),
    )  # fmt: skip


def speed_figures(workloads: Sequence[str], runs: int) -> list[Figure]:
    figures = []
    for workload in workloads:
        pods, there = openb.pods(workload), openb.machines()
        timed = (Online.name, KNOWN, placers.FirstFit.name, placers.Fgd.name)
        rate = {name: max(placed_a_second(PLACERS[name](), pods, there) for _ in range(runs)) for name in timed}
        note = f"best of {runs}, learning included; with the mix known {rate[KNOWN]:,.0f}, first fit {rate[placers.FirstFit.name]:,.0f}"
        what = f"{workload}: placements in a second of one core"
        figures.append(Figure(what, rate[Online.name], "/s", SPEED_GOAL, peer="FGD", peer_value=rate[placers.Fgd.name], note=note))
    return figures


def placed_a_second(placer, workload: list[openb.Pod], there: list[openb.Machine]) -> float:
    """Of the CPU time inside the placer, learning too, over the whole experiment; the cluster's own book-keeping is not its work."""
    cluster = openb.dealt(there, SEEDS[0])
    coming = openb.arrivals(workload, int(cluster.gpu_count.sum()), SEEDS[0])
    began = time.process_time()
    placer.prepare(cluster, workload, SEEDS[0])
    spent = time.process_time() - began
    for pod in coming:
        began = time.process_time()
        found = placer.place(pod, cluster)
        spent += time.process_time() - began
        if found is not None:
            cluster.take(pod, *found)
    return len(coming) / spent
