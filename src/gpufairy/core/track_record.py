"""Track record: how forecasts of late turned out, and so how far the next ones may be off.

Run times are not all that is uncertain: whoever comes later and has had less goes first. How much that matters differs from place to place,
so it is learnt there: of every first forecast, how much sooner or later than its range it came true.
"""
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import exp
from statistics import NormalDist

from gpufairy.core.forecast import Start
from gpufairy.core.run_time import Runs

LEARNT = 200  # forecasts: some days of a busy lab
TOLD = 5_000  # that have not come true yet
OUTSIDE = 0.08  # of forecasts on either side of the range; with what changes while it is learnt about 80 % are inside
SLACK = timedelta(minutes=10)  # added to all waits: a minute instead of two is not half
# Before anything is learnt: as replayed queues had it (bench/forecast.py), so many values, whose logarithms have this middle and spread.
BEFORE, MIDDLE, SPREAD = 40, 0.1, 0.9
# By how many courses a forecast is told from: more of them reach further to either side, so that less is left to be learnt.
REACH = {1: 0.0, 3: 0.2, 5: 0.35, 11: 0.45}


@dataclass(frozen=True, slots=True)
class Told:
    at: datetime
    start: Start


@dataclass(frozen=True, slots=True)
class Ends:
    """Real waits over those at the ends of the range."""

    low: Runs
    high: Runs


class TrackRecord:
    def __init__(self) -> None:
        self._told: dict[str, Told] = {}  # oldest first
        self._ends = {courses: Ends(as_before(MIDDLE + reach), as_before(MIDDLE - reach)) for courses, reach in REACH.items()}

    def noted(self, starts: Mapping[str, Start], now: datetime) -> None:
        """Of each session the first forecast counts: what people are told when they submit."""
        for session_id, start in starts.items():
            if session_id not in self._told and start.typical is not None and start.low is not None:
                self._told[session_id] = Told(now, start)
        while len(self._told) > TOLD:
            del self._told[next(iter(self._told))]

    def started(self, session_id: str, now: datetime) -> None:
        told = self._told.pop(session_id, None)
        if told is None or now < told.at:
            return
        waited, ends = now - told.at + SLACK, self._ends[told.start.courses]
        if told.start.low is not None:
            ends.low.add(waited / (told.start.low - told.at + SLACK))
        if told.start.high is not None:
            ends.high.add(waited / (told.start.high - told.at + SLACK))

    def ended(self, session_id: str) -> None:
        """It never started, and tells nothing."""
        self._told.pop(session_id, None)

    def ranged(self, start: Start, now: datetime) -> Start:
        """The forecast with the range that such ones turned out to need."""
        if start.typical is None or start.low is None:
            return start
        ends = self._ends[start.courses]
        low = now + self._stretched(start.low - now, ends.low, OUTSIDE)
        high = None if start.high is None else now + self._stretched(start.high - now, ends.high, 1 - OUTSIDE)
        return replace(start, low=max(now, min(low, start.typical)), high=None if high is None else max(high, start.typical))

    @staticmethod
    def _stretched(wait: timedelta, learnt: Runs, level: float) -> timedelta:
        return (wait + SLACK) * (learnt.at(level) or 1.0) - SLACK


def as_before(middle: float) -> Runs:
    made = Runs(LEARNT)
    for place in range(BEFORE):
        made.add(exp(middle + SPREAD * NormalDist().inv_cdf((place + 0.5) / BEFORE)))
    return made
