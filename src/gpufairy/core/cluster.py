"""Cluster: one frozen picture of everything planning looks at."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from gpufairy.core.booking import Calendar
from gpufairy.core.ledger import ENTRY_PENALTY, Usage
from gpufairy.core.node import Node
from gpufairy.core.preempt import Preempt
from gpufairy.core.queue import Queue
from gpufairy.core.quota import Quota, WeekUse
from gpufairy.core.room import Room, rooms
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import Session
from gpufairy.core.share import PARTS


@dataclass(frozen=True, slots=True)
class Policy:
    half_life: timedelta = timedelta(days=7)  # a week: a burst before a deadline is forgiven within a month
    depth: int = 1000  # looks in one pass at what does not fit, shared out among the owners: more would find little and take long
    stop_grace: timedelta = timedelta(seconds=10)
    silent_after: timedelta = timedelta(seconds=60)  # no answer from a node for so long: its sessions are LOST, not dead
    keep_ended: timedelta = timedelta(days=30)  # logs and results of ended sessions
    keep_most: timedelta = timedelta(hours=24)  # how far ahead one `keep` may put a session's end
    most_refusals: int = 5  # by the engine, in a row; then the session is given up in words
    # A start is charged for at least so long: a flood of sessions that each end at once would else cost its owner nothing.
    entry_penalty: timedelta = ENTRY_PENALTY
    most_queued: int = 10_000  # sessions of one user that wait: a sweep fits in, a loop that submits without end does not
    preempt: Preempt = Preempt.MARKED
    preempt_after: timedelta = timedelta(minutes=10)  # of running: what is sent away sooner has done nothing but load its data
    preempt_notice: timedelta = timedelta(seconds=30)  # between being told and being asked to leave


@dataclass(frozen=True, slots=True)
class Weights:
    """What part of the whole teams are entitled to, and users within theirs. Who is not named counts 1."""

    teams: Mapping[str, float] = field(default_factory=dict)
    users: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: tuple[Node, ...]
    holding: tuple[Session, ...] = ()  # those with a seat
    waiting: Mapping[str, Queue] = field(default_factory=dict)  # by owner
    usage: Mapping[str, Usage] = field(default_factory=dict)  # by owner; of teams by `team:NAME`
    policy: Policy = Policy()
    weights: Weights = Weights()
    quotas: tuple[Quota, ...] = ()
    week: WeekUse = field(default_factory=WeekUse)  # what was held in the last seven days, for quotas
    calendar: Calendar = field(default_factory=Calendar)
    run_times: RunTimes = field(default_factory=RunTimes)
    gangs: Mapping[str, tuple[Session, ...]] = field(default_factory=dict)  # of those who start together, all that wait, by gang

    def rooms(self) -> dict[str, Room]:
        return rooms(self.nodes, self.holding)

    def together(self, session: Session) -> tuple[Session, ...]:
        """Itself, and those who start with it or not at all."""
        others = self.gangs.get(session.request.gang, ()) if session.request.gang is not None else ()
        return (session, *(other for other in others if other.id != session.id))

    def still_leaving(self) -> dict[str, Session]:
        """Of gangs that were sent back somebody who has not left yet, by gang: the others wait, or they would start without it."""
        return {one.request.gang: one for one in self.holding if one.request.gang and one.comes_back and one.swapped_from is None}


@dataclass(frozen=True, slots=True)
class Totals:
    """All there is, for turning CPUs and memory into GPU-equivalents."""

    gpu_parts: int
    cpus_milli: int
    memory_bytes: int

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> "Totals":
        gpus = sum(len(node.gpus) for node in nodes)
        return cls(max(1, gpus) * PARTS, sum(n.cpus_milli for n in nodes) or 1, sum(n.memory_bytes for n in nodes) or 1)
