"""Who sits where and until when, as arrays: how soon each node may have what a request asks for, at the soonest.

A bound and no more: it counts what leaves, not on which GPU. When somebody really leaves, timeline.py says.
"""
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Seat, Session
from gpufairy.core.timeline import OVERDUE

BEGINS_WITH = 256  # who sit; it grows by itself
NOWHERE = -1  # the row of a node that is not there
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NEVER_US = np.iinfo(np.int64).max
FROM_START = -1  # as an end: it has not started, and stays for its time from then on

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Missing:
    """What each node lacks now for a request; none of it, or less: nothing."""

    parts: Ints
    cpus_milli: Ints
    memory_bytes: Ints
    somebody: NDArray[np.bool_]  # it does not fit there now, so at least one has to leave


@dataclass(frozen=True, slots=True)
class Soonest:
    when_us: Ints  # since 1970; NEVER_US: nobody knows
    gone: Ints


class Leavers:
    def __init__(self) -> None:
        self._row = np.full(BEGINS_WITH, NOWHERE, dtype=np.int64)
        self._end_us, self._stay_us, self._parts, self._cpus_milli, self._memory_bytes = np.zeros((5, BEGINS_WITH), dtype=np.int64)
        self._place: dict[str, int] = {}
        self._coming: dict[str, tuple[int, Session, Seat]] = {}  # not yet written down: of most nobody asks before they have left
        self._open = list(range(BEGINS_WITH))
        self._endless: dict[int, Session] = {}  # by place: those without a limit

    def come(self, row: int, session: Session, seat: Seat) -> None:
        self._coming[session.id] = row, session, seat

    def go(self, session_id: str) -> None:
        if self._coming.pop(session_id, None) is not None:
            return
        place = self._place.pop(session_id)
        self._row[place] = NOWHERE
        self._endless.pop(place, None)
        self._open.append(place)

    def write_down(self) -> None:
        for row, session, seat in self._coming.values():
            self._write(row, session, seat)
        self._coming.clear()

    def _write(self, row: int, session: Session, seat: Seat) -> None:
        if not self._open:
            self._grow()
        place = self._place[session.id] = self._open.pop()
        end_us, stay_us = end_and_stay(session)
        self._row[place], self._end_us[place], self._stay_us[place] = row, end_us, stay_us
        self._parts[place], self._cpus_milli[place], self._memory_bytes[place] = seat.gpu_parts, seat.cpus_milli, seat.memory_bytes
        if end_us == NEVER_US and row != NOWHERE:
            self._endless[place] = session

    def soonest(self, missing: Missing, now: datetime, ends_of_endless: Mapping[int, int]) -> Soonest:
        """Of those who are written down. `ends_of_endless`: by place, of those without a limit, where past runs tell."""
        there = np.flatnonzero(self._row >= 0)
        ends, rows, now_us = self._ends(there, now, ends_of_endless), self._row[there], micros(now)
        order = np.lexsort((ends, rows))
        there, ends, rows = there[order], ends[order], rows[order]
        first = np.searchsorted(rows, np.arange(len(missing.parts)))
        leaving = [
            how_many(lack, behind[there], first)
            for lack, behind in (
                (missing.parts, self._parts), (missing.cpus_milli, self._cpus_milli), (missing.memory_bytes, self._memory_bytes)
            )
        ]  # fmt: skip
        leave = np.maximum.reduce([missing.somebody.astype(np.int64), *leaving])
        leave = np.minimum(leave, np.bincount(rows, minlength=len(first)))
        when = np.where(leave > 0, np.append(ends, NEVER_US)[np.maximum(first + leave - 1, 0)], now_us)
        return Soonest(when, np.where(when == NEVER_US, self._of_unknown(missing, there, ends, rows), leave))

    def _ends(self, there: NDArray[np.intp], now: datetime, ends_of_endless: Mapping[int, int]) -> Ints:
        """As timeline.end_of has it."""
        now_us, ends = micros(now), self._end_us[there]
        is_stuck = now_us - ends > OVERDUE // MICROSECOND
        ends = np.where(ends == FROM_START, now_us + self._stay_us[there], np.where(is_stuck, NEVER_US, np.maximum(ends, now_us)))
        for place, end_us in ends_of_endless.items():
            ends[np.searchsorted(there, place)] = end_us
        return ends

    def _of_unknown(self, missing: Missing, there: NDArray[np.intp], ends: Ints, rows: Ints) -> Ints:
        """How many of those whose time nobody knows, at least: as if each had the largest seat of its node."""
        parts, known = self._parts[there], ends < NEVER_US
        behind, largest = np.zeros_like(missing.parts), np.ones_like(missing.parts)
        np.add.at(behind, rows[known], parts[known])
        np.maximum.at(largest, rows[~known], parts[~known])
        at_least: Ints = np.maximum(1, -((behind - missing.parts) // largest))
        return at_least

    def endless(self) -> Mapping[int, Session]:
        """By place, of those who are written down: who has no limit."""
        return self._endless

    def _grow(self) -> None:
        size = len(self._row)
        self._open = list(range(size, 2 * size))
        self._row = np.concatenate([self._row, np.full(size, NOWHERE, dtype=np.int64)])
        self._end_us, self._stay_us, self._parts, self._cpus_milli, self._memory_bytes = (
            np.concatenate([one, np.zeros(size, dtype=np.int64)])
            for one in (self._end_us, self._stay_us, self._parts, self._cpus_milli, self._memory_bytes)
        )


def how_many(missing: Ints, leaves_behind: Ints, first: Ints) -> Ints:
    """Of those who leave a node, in their order and beginning at `first`: after how many nothing is missing any more."""
    left = np.concatenate([[0], np.cumsum(leaves_behind)])
    found: Ints = np.searchsorted(left, left[first] + np.maximum(missing, 0), side="left") - first
    return np.maximum(found, 0)


def end_and_stay(session: Session) -> tuple[int, int]:
    """As timeline.due has it: an end since 1970, or a stay from the start."""
    if session.phase is Phase.STOPPING:
        return micros(session.since), 0
    limit = session.request.time_limit
    if limit is None:
        return NEVER_US, 0
    return (FROM_START, limit // MICROSECOND) if session.started_at is None else (micros(session.started_at + limit), 0)


def micros(when: datetime) -> int:
    return (when - EPOCH) // MICROSECOND


def moment(when_us: int) -> datetime:
    return EPOCH + when_us * MICROSECOND
