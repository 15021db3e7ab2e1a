"""The simulator: how much faster than real time, and what fair turns change for a lab's month, with jobs drawn from openb.

openb names no users: thirty are drawn for it by Zipf's law, the same each time. Of its pods those that use GPUs and ran for at most three
days are drawn, since a service that runs for months is no job; they come evenly over thirty days, each with a usual time limit.
"""
import time
from dataclasses import replace
from datetime import timedelta

import numpy as np

from bench.figures import Figure, Report
from bench.openb import HERE
from gpufairy.cli.simulate_nodes import parse_nodes, read_nodes
from gpufairy.core.replay import replay
from gpufairy.core.replay_cells import EPOCH
from gpufairy.core.replay_figures import Figures, figures_of
from gpufairy.core.replay_job import Job, Trace, checked
from gpufairy.core.replay_rules import parse_rules
from gpufairy.core.replay_trace import read_trace
from gpufairy.core.share import PARTS

GOAL = 1_000_000  # times real time
MONTH = timedelta(days=30)
JOBS = 10_000
LONGEST = timedelta(days=3)
USUAL_LIMITS_H = (0.5, 1, 2, 4, 8, 12, 24, 48, 72, 168)  # what people ask for: one to three times what they need, rounded up
NODES = "6x8xA100-80GB"
LOADS = (0.6, 0.85)  # of all GPUs, asked for on average
ROUNDS = 3


def measure(jobs: int = JOBS, rounds: int = ROUNDS) -> Report:
    figures = []
    for load in LOADS:
        month = a_month(load, jobs)
        (fair, took_s), (fifo, _), (strict, _) = (timed(month, name, rounds) for name in ("fair", "fifo", "fair-no-backfill"))
        figures += compared(load, fair, fifo, strict)
        what = f"{jobs:,} jobs in a month on 48 GPUs, {load:.0%} asked: times real time"
        figures.append(Figure(what, MONTH.total_seconds() / took_s, "x", GOAL, note=f"{took_s:.2f} s of CPU"))
    return Report("simulate", [*figures, openb_as_it_is()])


def openb_as_it_is() -> Figure:
    """The whole trace on the cluster that it is of; its pods come within five months."""
    with (HERE / "openb_pod_list_default.csv").open() as pods, (HERE / "openb_node_list_gpu_node.csv").open() as machines:
        trace, nodes = read_trace(pods, "openb"), read_nodes(machines, "openb")
    [rules] = parse_rules("fair")
    began_s = time.process_time()
    replayed = replay(trace, nodes, rules)
    took_s = time.process_time() - began_s
    figures = figures_of(replayed)
    assert figures is not None
    what = f"openb as it is, {figures.jobs:,} pods on its {len(nodes):,} nodes: times real time"
    return Figure(what, figures.span.total_seconds() / took_s, "x", GOAL, note=f"{took_s:.2f} s of CPU")


def compared(load: float, fair: Figures, fifo: Figures, strict: Figures) -> list[Figure]:
    def beside(what: str, value: float, other: float, unit: str) -> Figure:
        return Figure(f"{load:.0%} asked, {what}", value, unit, peer="fifo with backfill", peer_value=other)

    return [
        beside("fair: waiting, mean", fair.wait_s.mean / 60, fifo.wait_s.mean / 60, "min"),
        beside("fair: waiting, p95", fair.wait_s.p95 / 60, fifo.wait_s.p95 / 60, "min"),
        beside("fair: slowdown, p95", fair.slowdown.p95, fifo.slowdown.p95, ""),
        beside("fair: GPUs held to the last end", (fair.utilisation or 0) * 100, (fifo.utilisation or 0) * 100, "%"),
        beside("fair: Jain's index of shares while any wait", fair.share_fairness or 1, fifo.share_fairness or 1, ""),
        beside("fair without backfill: waiting, mean", strict.wait_s.mean / 60, fifo.wait_s.mean / 60, "min"),
    ]


def timed(month: Trace, policy: str, rounds: int) -> tuple[Figures, float]:
    """In CPU time, the least of several: what else runs on a machine only ever adds."""
    nodes, [rules], took_s = parse_nodes(NODES), parse_rules(policy), []
    for _ in range(rounds if policy == "fair" else 1):
        began_s = time.process_time()
        replayed = replay(month, nodes, rules)
        took_s.append(time.process_time() - began_s)
    figures = figures_of(replayed)
    assert figures is not None
    assert figures.jobs == len(month.jobs)
    return figures, min(took_s)


def a_month(load: float, jobs: int = JOBS, seed: int = 1) -> Trace:
    rng = np.random.default_rng(seed)
    with (HERE / "openb_pod_list_default.csv").open() as lines:
        pods = [pod for pod in read_trace(lines, "openb").jobs if pod.request.share.parts and pod.duration <= LONGEST]
    drawn = [pods[place] for place in rng.integers(len(pods), size=jobs).tolist()]
    gpus = sum(len(node.gpus) for node in parse_nodes(NODES))
    asked_s = sum(pod.request.share.parts / PARTS * pod.duration.total_seconds() for pod in drawn)
    stretch = load * gpus * MONTH.total_seconds() / asked_s  # openb's pods are short: so many times longer they load this cluster
    comes = np.sort(rng.uniform(0, MONTH.total_seconds(), jobs)).tolist()
    limits = rng.uniform(1, 3, jobs).tolist()
    made = [a_job(number, *one, stretch) for number, one in enumerate(zip(drawn, comes, limits, strict=True), 2)]
    return checked(made, "month")


def a_job(number: int, pod: Job, comes_s: float, factor: float, stretch: float) -> Job:
    """CPUs and memory in proportion to its GPUs, as a lab's users leave them."""
    lasts = pod.duration * stretch
    wanted_h = lasts.total_seconds() * factor / 3600
    limit = timedelta(hours=next((usual for usual in USUAL_LIMITS_H if usual >= wanted_h), wanted_h))
    request = replace(pod.request, cpus_milli=None, memory_bytes=None, time_limit=limit)
    return replace(pod, line=number, name=str(number), user="", submit=EPOCH + timedelta(seconds=comes_s), duration=lasts, request=request)
