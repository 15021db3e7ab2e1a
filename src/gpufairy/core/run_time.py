"""Run time: how long a session is likely to run, from its owner's and its image's past; and how sure that is.

Past runs are kept as they end, the last few of each owner and image. Whoever has run for longer than all of them is unknown, never due.
"""
from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.session import IdleStep, Outcome, Session

FEWEST = 5  # runs: of fewer, one that was odd would tell for all
KEPT = 50  # runs of each owner and image: what somebody does now is seen, what they did last term is forgotten
MOST_KEYS = 5_000  # owners and images remembered; 50 runs each come to some 10 MB
REAL_RUN = timedelta(minutes=1)  # one that its owner stopped sooner was a slip, and tells nothing of the next
LOW, TYPICAL, HIGH = 0.10, 0.50, 0.95  # of all runs so many are shorter
TELLING = frozenset({Outcome.DONE, Outcome.FAILED, Outcome.STOPPED, Outcome.EXPIRED})  # the others were cut off by no doing of theirs

Key = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class RunTime:
    """Of all runs like it a tenth took less than `low`, half less than `typical`, a twentieth more than `high`."""

    low: timedelta
    typical: timedelta
    high: timedelta
    runs: int  # it was read from so many
    of: str  # whose, in words, as their owner is told


class Runs:
    """The last of one kind: of runs their seconds; of limits, what part of them was used."""

    __slots__ = ("_kept", "_ordered", "_since")

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._since: deque[float] = deque()  # oldest first
        self._ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, value: float) -> None:
        self._since.append(value)
        insort(self._ordered, value)
        if len(self._since) > self._kept:
            del self._ordered[bisect_left(self._ordered, self._since.popleft())]

    def at(self, level: float, beyond: float = 0.0) -> float | None:
        """Of those that were longer than `beyond`, what so large a part was shorter than. None: none was."""
        first, last = bisect_right(self._ordered, beyond), len(self._ordered) - 1
        if first > last:
            return None
        place = first + level * (last - first)
        below = int(place)
        above = min(last, below + 1)
        return self._ordered[below] + (place - below) * (self._ordered[above] - self._ordered[below])


class RunTimes:
    """What past runs tell. Empty, it tells of nobody."""

    def __init__(self) -> None:
        self._runs: dict[Key, Runs] = {}  # who ended last, last
        self._used_of_limits = Runs()
        self._told: dict[tuple[str, str | None], RunTime | None] = {}  # since the last run ended

    @property
    def tells(self) -> bool:
        """Whether any run has ended."""
        return bool(self._runs)

    def ended(self, session: Session) -> None:
        """A run is over. What tells nothing of the next is left out."""
        ran = telling_run(session)
        if ran is None:
            return
        for key in keys_of(session.owner, session.request.image):
            runs = self._runs.pop(key, None) or Runs()
            runs.add(ran.total_seconds())
            self._runs[key] = runs
        while len(self._runs) > MOST_KEYS:
            del self._runs[next(iter(self._runs))]
        if session.request.time_limit is not None:
            self._used_of_limits.add(min(1.0, ran / session.request.time_limit))
        self._told.clear()

    def of(self, owner: str, image: str | None) -> RunTime | None:
        """None: too few have run to tell."""
        if (owner, image) not in self._told:
            found = self._like(owner, image)
            self._told[owner, image] = None if found is None else run_time(found[1], words(found[0], len(found[1])))
        return self._told[owner, image]

    def left(self, session: Session, now: datetime) -> RunTime | None:
        """Of one that has a seat, how much longer; from its start, where it has not started. None: it has outrun all we know of."""
        found = self._like(session.owner, session.request.image)
        if found is None:
            return None
        return run_time(found[1], words(found[0], len(found[1])), ran_s(session, now))

    def drawn(self, session: Session, now: datetime, level: float) -> timedelta | None:
        """How much longer it runs in one course of things: of the runs like it, the one that so large a part was shorter than."""
        limit, ran = session.request.time_limit, ran_s(session, now)
        found = self._like(session.owner, session.request.image)
        total_s = None if found is None else found[1].at(level, ran)
        if limit is None:
            return None if total_s is None else timedelta(seconds=total_s - ran)
        limit_s = limit.total_seconds()
        if found is None and len(self._used_of_limits) >= FEWEST:
            used = self._used_of_limits.at(level, ran / limit_s)
            total_s = None if used is None else used * limit_s
        return timedelta(seconds=max(0.0, min(limit_s, limit_s if total_s is None else total_s) - ran))

    def _like(self, owner: str, image: str | None) -> tuple[Key, Runs] | None:
        for key in keys_of(owner, image):
            runs = self._runs.get(key)
            if runs is not None and len(runs) >= FEWEST:
                return key, runs
        return None


def keys_of(owner: str, image: str | None) -> tuple[Key, Key, Key]:
    """The nearest first: the same image by the same owner, all of the owner's, all of the image."""
    return ("both", owner, image), ("owner", owner, None), ("image", None, image)


def telling_run(session: Session) -> timedelta | None:
    """How long it ran, if that says anything about how long the next one will."""
    began, ended = session.started_at, session.ended_at
    if session.outcome is Outcome.DONE and began is None:
        began = session.placed_at  # over before it was seen to run
    if ended is None or began is None or session.outcome not in TELLING or session.idle_step is IdleStep.STOPPED:
        return None
    ran = ended - began
    if ran < timedelta() or (session.outcome is Outcome.STOPPED and ran < REAL_RUN):
        return None
    return ran


def run_time(runs: Runs, of: str, ran: float = 0.0) -> RunTime | None:
    low, typical, high = (runs.at(level, ran) for level in (LOW, TYPICAL, HIGH))
    if low is None or typical is None or high is None:
        return None
    return RunTime(timedelta(seconds=low - ran), timedelta(seconds=typical - ran), timedelta(seconds=high - ran), len(runs), of)


def ran_s(session: Session, now: datetime) -> float:
    """Seconds; a clock that ran back has taken nothing away."""
    return 0.0 if session.started_at is None else max(0.0, (now - session.started_at).total_seconds())


def words(key: Key, runs: int) -> str:
    which, _, image = key
    if which == "owner":
        return f"your last {runs} runs"
    without = "without an image" if image is None else f"of {image}"
    return f"your last {runs} runs {without}" if which == "both" else f"the last {runs} runs {without} by anybody"


@dataclass(frozen=True, slots=True)
class Stay:
    """How long a session would sit in its seat. `time=None`: nobody can tell."""

    time: timedelta | None
    sure: bool  # it is a limit, and not an estimate


def stay_of(session: Session, run_times: RunTimes) -> Stay:
    limit = session.request.time_limit
    if limit is not None:
        return Stay(limit, sure=True)
    found = run_times.of(session.owner, session.request.image)
    return Stay(None if found is None else found.high, sure=False)
