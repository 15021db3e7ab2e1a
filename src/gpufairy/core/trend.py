"""Trends: how a figure of many things goes, over a window of looks, and when it would reach zero. All things at once, as arrays."""
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_POINTS = 6
SURE = 4.0  # standard errors that a slope must be away from none
STILL = 0.5  # of the slope, that it must have had of late: what has come to rest is not extrapolated


class Trends:
    def __init__(self, every_s: float, points: int) -> None:
        """A point is kept every so often; `every_s * points` is the window."""
        self._every_s, self._points = every_s, points
        self._row: dict[str, int] = {}
        self._times, self._values = np.empty((0, points)), np.empty((0, points))
        self._left = np.empty(0)  # as it was found last
        self._stale = np.empty(0, dtype=bool)  # a point came since

    def note(self, names: Sequence[str], at_s: Floats, values: Floats) -> None:
        """`at_s`: when each was read. A value that is not known (NaN), and one read before, are left out."""
        rows = self._rows_of(names)
        due = np.isfinite(values) & np.isfinite(at_s) & ~(at_s < self._times[rows, -1] + 0.9 * self._every_s)
        late = rows[due]
        for table, new in ((self._times, at_s), (self._values, values)):
            table[late, :-1] = table[late, 1:]
            table[late, -1] = new[due]
        self._stale[late] = True

    def to_zero_s(self, names: Sequence[str]) -> Floats:
        """Seconds, from the last point. Infinite: it does not fall, or not surely. NaN: too little is known."""
        rows = self._rows_of(names)
        stale = rows[self._stale[rows]]
        self._left[stale], self._stale[stale] = self._fitted(stale), False
        return self._left[rows]

    def _fitted(self, rows: NDArray[np.intp]) -> Floats:
        times, values = self._times[rows], self._values[rows]
        times = times - times[:, -1:]
        known = np.isfinite(times)
        count = known.sum(axis=1)
        slope, error = _slopes(np.where(known, times, 0.0), np.where(known, values, 0.0), known, count)
        falls = (slope < 0) & (slope < -SURE * error) & _falls_still(times, values, slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(falls, values[:, -1] / -slope, np.inf)
        return np.where(count >= LEAST_POINTS, left, np.nan)

    def forget(self, kept: Sequence[str]) -> None:
        """All others: hosts come and go."""
        rows = self._rows_of(kept)
        self._times, self._values, self._left, self._stale = (one[rows] for one in (self._times, self._values, self._left, self._stale))
        self._row = {name: place for place, name in enumerate(kept)}

    def __len__(self) -> int:
        return len(self._row)

    def _rows_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        new = [name for name in names if name not in self._row]
        for name in new:
            self._row[name] = len(self._row)
        if new:
            more = np.full((len(self._row) - len(self._times), self._points), np.nan)
            self._times, self._values = np.concatenate([self._times, more]), np.concatenate([self._values, more])
            self._left = np.concatenate([self._left, more[:, 0]])
            self._stale = np.concatenate([self._stale, np.zeros(len(more), dtype=bool)])
        return np.fromiter((self._row[name] for name in names), np.intp, len(names))


def _slopes(times: Floats, values: Floats, known: NDArray[np.bool_], count: NDArray[np.int_]) -> tuple[Floats, Floats]:
    """Of the straight line that fits best, and its standard error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_time, mean_value = times.sum(axis=1) / count, values.sum(axis=1) / count
        away = np.where(known, times - mean_time[:, None], 0.0)
        spread = (away**2).sum(axis=1)
        slope = (away * values).sum(axis=1) / spread
        missed = np.where(known, values - mean_value[:, None] - slope[:, None] * away, 0.0)
        error = np.sqrt((missed**2).sum(axis=1) / np.maximum(count - 2, 1) / spread)
    return np.nan_to_num(slope), np.nan_to_num(error, nan=np.inf)


def _falls_still(times: Floats, values: Floats, slope: Floats) -> NDArray[np.bool_]:
    quarter = -1 - max(1, times.shape[1] // 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        lately = (values[:, -1] - values[:, quarter]) / (times[:, -1] - times[:, quarter])
    return np.where(np.isfinite(lately), lately <= STILL * slope, True)
