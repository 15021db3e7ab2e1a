"""How evenly a replay dealt: what each user had of the GPUs against what was due to them, while anybody waited.

Due at a moment is the max-min fair part of all that was held then: by weight, and never more than the user wanted.
"""
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.cluster import Weights
from gpufairy.core.share import PARTS

if TYPE_CHECKING:
    from gpufairy.core.replay import Run

MOST_CELLS = 4_000_000  # times times users in one go: some 100 MB
Floats = NDArray[np.float64]


def jain(values: Sequence[float]) -> float:
    """1: all alike; 1/n: one has all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def share_ratios(runs: "Iterable[Run]", weights: Weights) -> dict[str, float]:
    """By user, of those to whom anything was due: had over due."""
    steps, users = steps_of(runs)
    if not steps:
        return {}
    names, times = list(users), sorted(steps)
    seconds = np.diff([(time - times[0]).total_seconds() for time in times], append=0.0)
    seconds[-1] = 0.0
    by_weight = np.array([weight_of(user, team, users.items(), weights) for user, team in users.items()])
    had, due = np.zeros(len(names)), np.zeros(len(names))
    held, wanted = np.zeros(len(names)), np.zeros(len(names))
    at_once = max(1, MOST_CELLS // len(names))
    for first in range(0, len(times), at_once):
        some = times[first : first + at_once]
        change = np.zeros((2, len(some), len(names)))
        for row, time in enumerate(some):
            for place, is_held, gpus in steps[time]:
                change[is_held, row, place] += gpus
        wants, holds = wanted + np.cumsum(change[0], axis=0), held + np.cumsum(change[1], axis=0)
        wanted, held = wants[-1], holds[-1]
        lasting = np.where(wants.sum(axis=1) - holds.sum(axis=1) > 1e-9, seconds[first : first + at_once], 0.0)
        had += lasting @ holds
        due += lasting @ dealt_fairly(holds.sum(axis=1), wants, by_weight)
    return {name: float(had[place] / due[place]) for place, name in enumerate(names) if due[place] > 1e-9}


Steps = dict[datetime, list[tuple[int, int, float]]]


def steps_of(runs: "Iterable[Run]") -> tuple[Steps, dict[str, str | None]]:
    """By time, how what users (by their place) want (0) and hold (1) changes, in GPUs; and the users, with their teams."""
    steps: Steps = defaultdict(list)
    users: dict[str, str | None] = {}
    places: dict[str, int] = {}
    for run in runs:
        gpus = run.seat.gpu_parts / PARTS
        if not gpus:
            continue
        users.setdefault(run.job.user, run.job.team)
        place = places.setdefault(run.job.user, len(places))
        steps[run.start].append((place, 1, gpus))
        steps[run.end].append((place, 1, -gpus))
        if run.finished:  # one that was sent away wanted to run all the time
            steps[run.ready].append((place, 0, gpus))
            steps[run.end].append((place, 0, -gpus))
    return steps, users


def weight_of(user: str, team: str | None, users: Iterable[tuple[str, str | None]], weights: Weights) -> float:
    """A team's weight is shared among those of its users who are in the trace."""
    own = max(1e-9, weights.users.get(user, 1.0))
    if team is None:
        return own
    together = sum(max(1e-9, weights.users.get(other, 1.0)) for other, of in users if of == team)
    return max(1e-9, weights.teams.get(team, 1.0)) * own / together


def dealt_fairly(total: Floats, wanted: Floats, weights: Floats) -> Floats:
    """Row by row: the total by weight, to nobody more than they want. The total is no more than all want together."""
    level = wanted / weights
    order = np.argsort(level, axis=1)
    sorted_level = np.take_along_axis(level, order, axis=1)
    wants = np.take_along_axis(wanted, order, axis=1)
    heavy = weights[order]
    served = np.cumsum(wants, axis=1) - wants  # to those whose wish is smaller
    left = np.cumsum(heavy[:, ::-1], axis=1)[:, ::-1]  # the weight of the others
    reaches = (total[:, None] - served) / left
    first = np.argmax(reaches <= sorted_level + 1e-12, axis=1)
    cut = np.take_along_axis(reaches, first[:, None], axis=1)
    return np.minimum(wanted, np.maximum(cut, 0.0) * weights)
