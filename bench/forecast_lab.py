"""A lab's queue, replayed through the product's own core: people with habits submit, plan() gives seats, forecasts are noted and judged."""
import heapq
import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from bench.openb import pods
from gpufairy.core.cluster import Cluster, Policy
from gpufairy.core.explain import outlook
from gpufairy.core.floor import Floor
from gpufairy.core.forecast import Start
from gpufairy.core.ledger import Usage, added, hold_ended
from gpufairy.core.lifecycle import Happening, Phase
from gpufairy.core.node import Gpu, Node
from gpufairy.core.plan import plan
from gpufairy.core.queue import Queue
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import Outcome, Request, Session, SessionKind
from gpufairy.core.share import parse_share
from gpufairy.core.steps import end, place, step
from gpufairy.core.track_record import TrackRecord

BEGAN = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
GIB = 2**30
NODES = (("gpu01", "A100-80GB", 8), ("gpu02", "A100-80GB", 8), ("gpu03", "H200-141GB", 4))
GPUS = sum(count for _, _, count in NODES)
SHARES = (("0.5", 0.5), ("1", 1.0), ("1", 1.0), ("1", 1.0), ("2", 2.0), ("2", 2.0), ("4", 4.0), ("8", 8.0))
USERS, LOAD = 12, 0.92  # of the GPUs' time, asked for: queues of hours, that empty again
LONGEST_S = 3 * 86400.0
WARM_UP = 0.25  # of the arrivals, before forecasts are judged: nobody knows anything of a lab on its first day
LOOKED_AT = 3  # of those who wait when they come, every third


@dataclass(frozen=True, slots=True)
class Arrival:
    at: datetime
    session: Session
    run: timedelta


@dataclass(frozen=True, slots=True)
class Judged:
    """One forecast, as it was told at submission, and what came."""

    told: Start
    at: datetime
    started: datetime
    naive_s: float  # what somebody would say who only knows how long others waited of late: the median of the last 50


@dataclass(frozen=True, slots=True)
class Habit:
    """What one user does with one image."""

    owner: str
    image: str
    gpus: str
    amount: float
    kind: str | None
    typical_s: float
    spread: float  # of the logarithm

    def run_s(self, rng: np.random.Generator) -> float:
        return float(np.clip(self.typical_s * np.exp(self.spread * rng.normal()), 30.0, LONGEST_S))


class BandHabit(Habit):
    """As long as pods of the openb trace: each habit has its own stretch of their durations."""

    DURATIONS = np.sort([pod.duration for pod in pods("default") if 30.0 < pod.duration < LONGEST_S])

    def run_s(self, rng: np.random.Generator) -> float:
        rank = np.clip(self.typical_s + 0.15 * rng.normal(), 0.0, 0.999)
        return float(self.DURATIONS[int(rank * len(self.DURATIONS))])


def habits(rng: np.random.Generator, openb: bool) -> list[Habit]:
    made = []
    for user in range(USERS):
        for image in range(int(rng.integers(1, 4))):
            gpus, amount = SHARES[int(rng.integers(len(SHARES)))]
            kind = None if amount > 4 or rng.random() < 0.8 else ("A100", "H200")[int(rng.integers(2))]
            sort = BandHabit if openb else Habit
            typical = float(rng.uniform()) if openb else float(np.exp(rng.uniform(np.log(600), np.log(8 * 3600))))
            made.append(sort(f"user{user:02}", f"image{user}-{image}", gpus, amount, kind, typical, float(rng.uniform(0.3, 1.1))))
    return made


def arrivals(seed: int, count: int, openb: bool, limited: float) -> Iterator[Arrival]:
    """In bursts, as people submit. `limited`: what part of them gives a limit, of 1.2 to 4 times what it takes."""
    rng = np.random.default_rng(seed)
    known = habits(rng, openb)
    at, number = BEGAN, 0
    pause_s = float(np.mean([habit.amount * habit.run_s(rng) for habit in known for _ in range(200)])) / (LOAD * GPUS)
    while number < count:
        habit, burst = known[int(rng.integers(len(known)))], int(rng.integers(1, 6))
        at += timedelta(seconds=float(rng.exponential(pause_s * burst)))
        for _ in range(burst):
            number += 1
            run = timedelta(seconds=habit.run_s(rng))
            limit = run * float(rng.uniform(1.2, 4.0)) if rng.random() < limited else None
            request = Request(parse_share(habit.gpus), ("train",), gpu_kind=habit.kind, image=habit.image, time_limit=limit)
            session = Session(f"s{number:06}", f"n{number}", habit.owner, SessionKind.BATCH, request, at, at, number=number)
            yield Arrival(at, session, run)


@dataclass(slots=True)
class Replay:
    nodes: tuple[Node, ...]
    policy: Policy = field(default_factory=Policy)
    queues: dict[str, Queue] = field(default_factory=dict)
    holding: dict[str, Session] = field(default_factory=dict)
    runs: dict[str, timedelta] = field(default_factory=dict)
    ends: list[tuple[datetime, str]] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    run_times: RunTimes = field(default_factory=RunTimes)
    floor: Floor = field(default_factory=Floor)
    record: TrackRecord = field(default_factory=TrackRecord)
    told: dict[str, tuple[Start, datetime, float]] = field(default_factory=dict)
    waits_s: deque[float] = field(default_factory=lambda: deque([0.0], maxlen=50))
    judged: list[Judged] = field(default_factory=list)

    def cluster(self) -> Cluster:
        waiting = {owner: queue for owner, queue in self.queues.items() if queue}
        return Cluster(self.nodes, tuple(self.holding.values()), waiting, self.usage, self.policy, run_times=self.run_times)

    def advance(self, to: datetime | None) -> None:
        while self.ends and (to is None or self.ends[0][0] <= to):
            now, session_id = heapq.heappop(self.ends)
            made = end(self.holding.pop(session_id), Happening.EXITED, now, outcome=Outcome.DONE, why="")
            self.run_times.ended(made.after)
            if (hold := hold_ended(made)) is not None:
                owner = made.before.owner
                self.usage[owner] = added(self.usage.get(owner), hold, self.policy.half_life)
            self.give_seats(now)

    def arrive(self, coming: Arrival, look: bool) -> None:
        session, now = coming.session, coming.at
        self.runs[session.id] = coming.run
        self.queues.setdefault(session.owner, Queue()).add(session)
        made = self.give_seats(now)
        if look and session.id not in self.holding:
            view = outlook(self.cluster(), made, now, 2000, self.record)
            self.record.noted(view.starts, now)
            if session.id in view.starts:
                self.told[session.id] = self.record.ranged(view.starts[session.id], now), now, statistics.median(self.waits_s)

    def give_seats(self, now: datetime):
        made = plan(self.cluster(), now, self.floor)
        for placed in made.placed:
            session = placed.session
            self.queues[session.owner].remove(session)
            seated = place(session, placed.seat, now, "").after
            running = step(step(seated, Happening.LAUNCH_ORDERED, now), Happening.READY, now)
            assert running.phase is Phase.RUNNING
            self.holding[session.id] = running
            self.record.started(session.id, now)
            heapq.heappush(self.ends, (now + self.runs[session.id], session.id))
            if now > session.submitted_at:
                self.waits_s.append((now - session.submitted_at).total_seconds())
            if session.id in self.told:
                told, at, naive_s = self.told.pop(session.id)
                self.judged.append(Judged(told, at, now, naive_s))
        return made


def replayed(seed: int, count: int, *, openb: bool, limited: float) -> list[Judged]:
    replay = Replay(tuple(a_node(*one) for one in NODES))
    for number, coming in enumerate(arrivals(seed, count, openb, limited)):
        replay.advance(coming.at)
        replay.arrive(coming, look=number > count * WARM_UP and number % LOOKED_AT == 0)
    replay.advance(None)
    return replay.judged


def a_node(name: str, kind: str, gpus: int) -> Node:
    cards = tuple(Gpu(index, f"GPU-{name}-{index}", kind, 80 * GIB) for index in range(gpus))
    return Node(name, 16000 * gpus, 128 * GIB * gpus, cards)
