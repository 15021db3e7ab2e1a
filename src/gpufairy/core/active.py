"""Active or idle, over a window and with the reason. Three answers: an unknown reading never counts as idle.

One utilisation of zero says little: between two steps of a training every GPU rests. So what counts is a whole window of readings.
"""
import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

BUSY_FROM = 0.01  # 1 %: the least that drivers tell apart from nothing
WINDOW_S = 60.0  # a data loader between two epochs takes less
LONGEST_GAP_S = 15.0  # readings come each second or few; after so long a silence nobody knows what happened meanwhile


@dataclass(frozen=True, slots=True)
class Activity:
    active: bool | None  # None: nobody can tell
    why: str
    since_s: float | None = None  # on the clock of the readings; None where nobody can tell


@dataclass(frozen=True, slots=True)
class Seen:
    """What is remembered of one process or device: as much after a day as after a minute."""

    last_s: float  # the newest reading, known or not
    known_since_s: float | None  # from here to the newest, every reading was known
    busy_s: float | None = None  # the newest above the threshold
    busy: float = 0.0  # and how much it was
    busy_since_s: float | None = None  # the first of those that lie less than a window apart


class ActivityWindow:
    """Fed with readings; a key names a process (PID, start, device) or a device."""

    def __init__(self, window_s: float = WINDOW_S, *, busy_from: float = BUSY_FROM, longest_gap_s: float = LONGEST_GAP_S) -> None:
        self._window_s, self._busy_from, self._longest_gap_s = window_s, busy_from, longest_gap_s
        self._seen: dict[Hashable, Seen] = {}

    def note(self, key: Hashable, at_s: float, utilisation: float | None) -> None:
        """`at_s`: a clock that never goes back; a reading older than the newest is left out."""
        before = self._seen.get(key)
        if before is not None and at_s < before.last_s:
            return
        known = utilisation is not None and math.isfinite(utilisation)
        seen = Seen(at_s, self._known_since_s(before, at_s) if known else None)
        if before is not None:
            seen = replace(seen, busy_s=before.busy_s, busy=before.busy, busy_since_s=before.busy_since_s)
        if known and utilisation is not None and utilisation >= self._busy_from:
            goes_on = before is not None and before.busy_s is not None and at_s - before.busy_s <= self._window_s
            since_s = seen.busy_since_s if goes_on else at_s
            seen = replace(seen, busy_s=at_s, busy=utilisation, busy_since_s=since_s)
        self._seen[key] = seen

    def of(self, key: Hashable, now_s: float) -> Activity:
        seen = self._seen.get(key)
        if seen is None:
            return Activity(None, "never read")
        if seen.busy_s is not None and now_s - seen.busy_s <= self._window_s:
            return Activity(True, f"{seen.busy:.0%} in use {max(0, now_s - seen.busy_s):.0f} s ago", seen.busy_since_s)
        if now_s - seen.last_s > self._longest_gap_s:
            return Activity(None, f"not read for {now_s - seen.last_s:.0f} s")
        if seen.known_since_s is None:
            return Activity(None, "its use cannot be read")
        if now_s - seen.known_since_s < self._window_s:
            return Activity(None, f"read for {max(0, now_s - seen.known_since_s):.0f} s; it takes {self._window_s:.0f} s to tell")
        idle_since_s = seen.known_since_s if seen.busy_s is None else max(seen.busy_s, seen.known_since_s)
        return Activity(False, f"under {self._busy_from:.0%} in use for {now_s - idle_since_s:.0f} s", idle_since_s)

    def forget(self, before_s: float) -> None:
        """Those with no reading since: processes that ended, GPUs cut anew."""
        self._seen = {key: seen for key, seen in self._seen.items() if seen.last_s >= before_s}

    def __len__(self) -> int:
        return len(self._seen)

    def _known_since_s(self, before: Seen | None, at_s: float) -> float:
        if before is None or before.known_since_s is None or at_s - before.last_s > self._longest_gap_s:
            return at_s
        return before.known_since_s
