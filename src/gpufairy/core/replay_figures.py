"""What a replay comes to: how long jobs waited, how busy the GPUs were, and how evenly it fell on users."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from gpufairy.core.cluster import Weights
from gpufairy.core.replay import Replayed, Run
from gpufairy.core.replay_fairness import jain, share_ratios
from gpufairy.core.share import PARTS

SHORTEST_S = 10.0  # slowdown is over at least so long: else a job of a moment that waits a minute outweighs all others


@dataclass(frozen=True, slots=True)
class Spread:
    mean: float
    p50: float
    p95: float
    most: float


@dataclass(frozen=True, slots=True)
class Worst:
    user: str
    slowdown: float  # mean over their jobs


@dataclass(frozen=True, slots=True)
class Figures:
    policy: str
    jobs: int  # that ended
    never: int  # that did not start
    passed: int  # started by backfill: past somebody who was before them in line
    sent_away: int  # starts that were cut short for others, and begun anew
    cut_short: int  # by their time limit
    wait_s: Spread
    completion_s: Spread  # from submission to end
    slowdown: Spread  # from when it could have run to its end, over its run
    utilisation: float | None  # of all GPUs, from the first submission to the last end; None: there are none
    utilisation_while_coming: float | None  # the same, up to the last submission
    slowdown_fairness: float  # Jain's index over users' mean slowdown: 1 is even
    share_fairness: float | None  # the same over GPU-time had to GPU-time due, while anybody waited; None: nobody ever did
    worst: Worst
    span: timedelta  # that was lived through
    passes: int


def figures_of(replayed: Replayed, weights: Weights = Weights()) -> Figures | None:
    """None: no job ended, so there is nothing to tell."""
    done = [run for run in replayed.runs if run.finished]
    if not done:
        return None
    began, last_came = min(run.job.submit for run in done), max(run.job.submit for run in done)
    ended = max(run.end for run in replayed.runs)
    slowdowns = [(run.end - run.ready).total_seconds() / max(SHORTEST_S, (run.end - run.start).total_seconds()) for run in done]
    by_user = means_by_user(done, [max(1.0, slowdown) for slowdown in slowdowns])
    ratios = share_ratios(replayed.runs, weights)
    parts = sum(len(node.gpus) for node in replayed.nodes) * PARTS
    return Figures(
        replayed.rules.name, len(done), len(replayed.never), sum(run.passed for run in done), len(replayed.runs) - len(done),
        sum(run.end - run.start < run.job.duration for run in done),
        spread([(run.start - run.ready).total_seconds() for run in done]),
        spread([(run.end - run.job.submit).total_seconds() for run in done]),
        spread([max(1.0, slowdown) for slowdown in slowdowns]),
        utilisation(replayed.runs, parts, began, ended), utilisation(replayed.runs, parts, began, last_came),
        jain(list(by_user.values())), jain(list(ratios.values())) if ratios else None,
        Worst(*max(by_user.items(), key=lambda one: (one[1], one[0]))), ended - began, replayed.passes,
    )  # fmt: skip


def spread(values: Sequence[float]) -> Spread:
    taken = np.array(values)
    return Spread(float(taken.mean()), float(np.quantile(taken, 0.5)), float(np.quantile(taken, 0.95)), float(taken.max()))


def means_by_user(runs: Sequence[Run], values: Sequence[float]) -> dict[str, float]:
    of: dict[str, list[float]] = {}
    for run, value in zip(runs, values, strict=True):
        of.setdefault(run.job.user, []).append(value)
    return {user: sum(them) / len(them) for user, them in of.items()}


def utilisation(runs: Sequence[Run], gpu_parts: int, since: datetime, until: datetime) -> float | None:
    """Of what was there, what was held."""
    if not gpu_parts or until <= since:
        return None
    held = sum(run.seat.gpu_parts * max(0.0, (min(run.end, until) - max(run.start, since)).total_seconds()) for run in runs)
    return held / (gpu_parts * (until - since).total_seconds())
