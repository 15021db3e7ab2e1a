"""Replay: a trace lived through once more, by the product's own planning: a pass at each arrival and each end, as on a real server.

Time is the trace's: nothing waits, and where nobody could start no pass is made (replay_chances.py).
"""
import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum

from gpufairy.core.cluster import Weights
from gpufairy.core.errors import Conflict
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Node
from gpufairy.core.plan import Placement, Plan
from gpufairy.core.queue import Shape, ready_at, shape, sitting
from gpufairy.core.replay_job import Job, Trace
from gpufairy.core.replay_pass import planned
from gpufairy.core.replay_rules import Rules
from gpufairy.core.replay_world import World
from gpufairy.core.room import Room
from gpufairy.core.session import Seat, Session, SessionKind

EVERYBODY = "everybody"  # whose one line it is where there are no turns
LOOK_AGAIN = timedelta(hours=1)  # where only time can help, as with GPU-hours a week
MOST_SENT_AWAY = 1000  # times, of one job: far more than any sound policy would
LOOKS_AGAIN = 24 * 8  # after a week nothing that was held counts any more


@dataclass(frozen=True, slots=True)
class Run:
    """One stay of a job in a seat."""

    job: Job
    ready: datetime  # from when on it could have run
    start: datetime
    end: datetime
    seat: Seat
    passed: bool = False  # it was let past somebody who came before it in line
    finished: bool = True  # False: it was sent away, and starts anew


@dataclass(frozen=True, slots=True)
class Replayed:
    rules: Rules
    nodes: tuple[Node, ...]
    runs: tuple[Run, ...]
    never: tuple[tuple[Job, str], ...]  # those that did not start, each with why
    passes: int  # so often was planned


class What(IntEnum):
    """In this order, where several happen at once: room is there before it is asked for."""

    LEFT = 0
    CAME = 1
    RESTED = 2


def replay(trace: Trace, nodes: Sequence[Node], rules: Rules, weights: Weights = Weights()) -> Replayed:
    never = never_fitting(trace.jobs, nodes)
    learns = any(job.request.time_limit is None for job in trace.jobs)
    work = Replay(World(tuple(nodes), rules, weights, learns=learns), rules)
    for number, job in enumerate(trace.jobs, 1):
        if number not in never:
            work.expect(number, job)
    work.live_through()
    hopeless = [(trace.jobs[number - 1], why) for number, why in never.items()]
    return Replayed(rules, tuple(nodes), tuple(work.runs), (*hopeless, *work.left_waiting()), work.passes)


def never_fitting(jobs: Iterable[Job], nodes: Sequence[Node]) -> dict[int, str]:
    """By number, why not even an empty cluster has room for it."""
    empty, answers, never = [Room.empty(node) for node in nodes], dict[Shape, str](), dict[int, str]()
    for number, job in enumerate(jobs, 1):
        asked = sitting(shape(job.request))
        if asked not in answers:
            refusals = [answer for room in empty if isinstance(answer := fit(job.request, room), Refusal)]
            answers[asked] = "" if len(refusals) < len(empty) else refusals[0].why if refusals else "there is no node"
        if answers[asked]:
            never[number] = answers[asked]
    return never


class Replay:
    """The scratch of one replay."""

    def __init__(self, world: World, rules: Rules) -> None:
        self._world, self._rules = world, rules
        self._jobs: dict[str, Job] = {}
        self._coming: list[tuple[datetime, What, int, str, int]] = []  # a heap: when, what, number, id and which attempt
        self._ready: dict[str, datetime] = {}
        self._passed: set[str] = set()
        self._held_back: dict[str, int] = {}  # by id: for so many things it waits before it lines up
        self._followers: dict[str, list[str]] = defaultdict(list)  # by name of a job: who comes after it
        self._last: Plan | None = None
        self.runs: list[Run] = []
        self.passes = 0

    def expect(self, number: int, job: Job) -> None:
        key = str(number)
        self._jobs[key] = job
        self._held_back[key] = 1 + len(set(job.after))
        for name in set(job.after):
            self._followers[name].append(key)
        heapq.heappush(self._coming, (job.submit, What.CAME, number, key, 1))

    def live_through(self) -> None:
        now, looks = datetime.min, 0
        while self._coming:
            now = self._moment()
            self._pass(now)
            while not self._coming and looks < LOOKS_AGAIN and any(True for _ in self._world.waiting()):
                now, looks = now + LOOK_AGAIN, looks + 1
                self._pass(now)

    def left_waiting(self) -> list[tuple[Job, str]]:
        waiting = [(self._jobs[session.id], self._why(session)) for session in self._world.waiting()]
        return [*waiting, *((self._jobs[key], "what it comes after never ended") for key, count in self._held_back.items() if count)]

    def _why(self, session: Session) -> str:
        refusals = self._last.refusals_of(session) if self._last is not None else ()
        return refusals[0].why if refusals else "nobody left to make room for it"

    def _moment(self) -> datetime:
        """All that happens at the next time at which anything does."""
        now = self._coming[0][0]
        while self._coming and self._coming[0][0] == now:
            _, what, _, key, attempt = heapq.heappop(self._coming)
            if what is What.CAME:
                self._one_thing_less(key, now)
            elif what is What.LEFT:
                self._leaves(key, attempt, now)
        return now

    def _one_thing_less(self, key: str, now: datetime) -> None:
        self._held_back[key] -= 1
        if not self._held_back[key]:
            del self._held_back[key]
            self._ready[key] = now
            self._world.line_up(session_of(key, self._jobs[key], self._rules))

    def _leaves(self, key: str, attempt: int, now: datetime) -> None:
        session = self._world.holding.get(key)
        if session is None or session.attempt != attempt or session.seat is None or session.placed_at is None:
            return  # it was sent away before
        job, finished = self._jobs[key], now >= self._end_of(session)
        self._world.leave(key, now, done=finished)
        self.runs.append(Run(job, self._ready[key], session.placed_at, now, session.seat, key in self._passed, finished))
        if not finished:
            self._line_up_again(session, now)
            return
        for follower in self._followers.get(job.name, ()):
            self._one_thing_less(follower, now)

    def _line_up_again(self, session: Session, now: datetime) -> None:
        job = self._jobs[session.id]
        if session.preempted >= MOST_SENT_AWAY:
            found = f"line {job.line}: was sent away {MOST_SENT_AWAY} times, and never ran to its end"
            raise Conflict(f"{self._rules.name}: {found}", "Try another policy: this one goes round in a circle on this trace.")
        fresh = session_of(session.id, job, self._rules)
        again = replace(fresh, attempt=session.attempt + 1, preempted=session.preempted + 1, since=now)
        self._world.line_up(again)
        heapq.heappush(self._coming, (ready_at(again), What.RESTED, again.number, again.id, again.attempt))

    def _pass(self, now: datetime) -> None:
        if not self._world.chances.any() and not self._world.somebody_may_have_to_leave():
            return
        self.passes += 1
        self._last = made = planned(self._world, self._rules, now)
        for placed in made.placed:
            self._seat(placed, now)
        self._world.chances.room_shrank()
        for eviction in made.evictions:
            self._send_away(eviction.victim, now)

    def _seat(self, placed: Placement, now: datetime) -> None:
        session = self._world.sit(placed.session, placed.seat, now)
        if placed.passed:
            self._passed.add(session.id)
        heapq.heappush(self._coming, (self._end_of(session), What.LEFT, session.number, session.id, session.attempt))
        if self._world.somebody_may_have_to_leave():  # from then on it may be asked to: somebody looks
            looked_at = now + self._rules.policy.preempt_after
            heapq.heappush(self._coming, (looked_at, What.RESTED, session.number, session.id, session.attempt))

    def _send_away(self, victim: Session, now: datetime) -> None:
        self._world.ask_to_leave(victim, now)
        when = now + self._rules.policy.preempt_notice
        heapq.heappush(self._coming, (when, What.LEFT, victim.number, victim.id, victim.attempt))

    def _end_of(self, session: Session) -> datetime:
        """When it has done its work, or its time is up."""
        assert session.placed_at is not None
        job, limit = self._jobs[session.id], session.request.time_limit
        return session.placed_at + (job.duration if limit is None else min(job.duration, limit))


def session_of(key: str, job: Job, rules: Rules) -> Session:
    """Where there are no turns all have one owner, so that one line is left."""
    owner, team = (job.user, job.team) if rules.turns else (EVERYBODY, None)
    return Session(
        key, job.name, owner, SessionKind.BATCH, job.request, job.submit, job.submit, int(key), team, job.priority, phase=Phase.QUEUED
    )  # fmt: skip
