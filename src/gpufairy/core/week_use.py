"""Week use: GPU-time that was held in the last seven days, for quotas. The window slides: what leaves it at one end counts no more."""
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np

from gpufairy.core.ledger import Hold
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS

WEEK = timedelta(days=7)
KEPT = 2 * WEEK  # what lies further back is dropped when room is needed: a clock that ran ahead and came back still finds its week
FIRST_ROOM = 16  # spans
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WeekUse:
    """By seats that were given back; those of preemptible sessions are no quota's business. Grows with every hold that ends."""

    def __init__(self) -> None:
        self._spans: dict[str, dict[str, Spans]] = {}  # by who (user:NAME, team:NAME), then by kind of GPU

    def add_hold(self, hold: Hold) -> None:
        if not hold.session.request.preemptible:
            self.add(hold.session.owner, hold.session.team, hold.seat, hold.since, hold.until)

    def add(self, owner: str, team: str | None, seat: Seat, since: datetime, until: datetime) -> None:
        if until <= since:
            return
        for who in accounts(owner, team):
            by_kind = self._spans.setdefault(who, {})
            for gpu in seat.gpus:
                by_kind.setdefault(gpu.kind, Spans()).add(_seconds(since), _seconds(until), taken_parts(gpu) / PARTS)

    def gpu_seconds(self, who: str, is_meant: Callable[[str], bool], now: datetime) -> float:
        """Of the kinds that are meant, within the seven days before `now`."""
        return sum(spans.gpu_seconds(_seconds(now)) for kind, spans in self._spans.get(who, {}).items() if is_meant(kind))


class Spans:
    """Stretches of time with so many GPUs each, in columns: a sum over a hundred thousand of them takes a fraction of a millisecond."""

    def __init__(self) -> None:
        self._rows = np.zeros((3, FIRST_ROOM))  # since, until, GPUs
        self._count = 0

    def add(self, since_s: float, until_s: float, gpus: float) -> None:
        if self._count == self._rows.shape[1]:
            self._make_room(until_s)
        self._rows[:, self._count] = since_s, until_s, gpus
        self._count += 1

    def gpu_seconds(self, now_s: float) -> float:
        since, until, gpus = self._rows[:, : self._count]
        held_s = np.minimum(until, now_s) - np.maximum(since, now_s - WEEK.total_seconds())
        return float(np.dot(np.maximum(held_s, 0.0), gpus))

    def _make_room(self, now_s: float) -> None:
        kept = self._rows[:, self._rows[1] > now_s - KEPT.total_seconds()]
        self._count = kept.shape[1]
        self._rows = np.zeros((3, max(FIRST_ROOM, 2 * self._count)))
        self._rows[:, : self._count] = kept


def accounts(owner: str, team: str | None) -> tuple[str, ...]:
    """By which names quotas know them."""
    return (f"user:{owner}",) if team is None else (f"user:{owner}", f"team:{team}")


def taken_parts(gpu: GpuSeat) -> int:
    """What of the GPU nobody else can use: the larger of the two parts it takes."""
    return max(gpu.parts, gpu.memory_parts or 0)


def _seconds(at: datetime) -> float:
    return (at - EPOCH).total_seconds()
