"""World: a cluster in a replay: who sits where, who waits, who has had how much. It is told what happens, and shown to planning."""
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from gpufairy.core.cluster import Cluster, Weights
from gpufairy.core.floor import Floor
from gpufairy.core.ledger import Hold, Usage, added, charged_to
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Node
from gpufairy.core.preempt import Preempt
from gpufairy.core.queue import Queue
from gpufairy.core.quota import WeekUse
from gpufairy.core.replay_chances import Chances
from gpufairy.core.replay_rules import Rules
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import Outcome, Seat, Session


class World:
    def __init__(self, nodes: tuple[Node, ...], rules: Rules, weights: Weights, *, learns: bool = True) -> None:
        """`learns`: how long runs take; nobody asks where all have a time limit."""
        self._nodes, self._rules, self._weights = nodes, rules, weights
        self._queues: dict[str, Queue] = {}
        self._usage: dict[str, Usage] = {}
        self._week, self._run_times, self._learns = WeekUse(), RunTimes(), learns
        self._guests = 0  # of those who hold seats, how many may be sent away
        self.floor = Floor()
        self.floor.follow(nodes, ())
        self.chances = Chances(self.floor.rooms)
        self.holding: dict[str, Session] = {}

    def cluster(self) -> Cluster:
        return Cluster(
            self._nodes, tuple(self.holding.values()), self._queues, self._usage, self._rules.policy, self._weights, self._rules.quotas,
            self._week, run_times=self._run_times,
        )  # fmt: skip

    def waiting(self) -> Iterator[Session]:
        return (session for queue in self._queues.values() for session in queue)

    def somebody_may_have_to_leave(self) -> bool:
        """Then a pass may change something though nobody fits."""
        match self._rules.policy.preempt:
            case Preempt.OFF:
                return False
            case Preempt.MARKED:
                return self._guests > 0
            case Preempt.LOWER:
                return bool(self.holding)

    def only_one_waiting(self) -> Session | None:
        if len(self._queues) != 1:
            return None
        [queue] = self._queues.values()
        return next(iter(queue)) if len(queue) == 1 else None

    def line_up(self, session: Session) -> None:
        self._queues.setdefault(session.owner, Queue()).add(session)
        self.chances.came(session)

    def sit(self, session: Session, seat: Seat, now: datetime) -> Session:
        """One who waited has a seat: planning has put it on the floor."""
        queue = self._queues[session.owner]
        queue.remove(session)
        if not queue:
            del self._queues[session.owner]
        self.chances.went(session)
        seated = replace(session, seat=seat, phase=Phase.RUNNING, placed_at=now, started_at=now, since=now)
        self.holding[session.id] = seated
        self._guests += session.request.preemptible
        return seated

    def ask_to_leave(self, session: Session, now: datetime) -> None:
        self.holding[session.id] = replace(session, phase=Phase.STOPPING, since=now)

    def leave(self, session_id: str, now: datetime, *, done: bool) -> None:
        """Its seat is free, and counted to whom it was held for, as the ledger does it."""
        session = self.holding.pop(session_id)
        self._guests -= session.request.preemptible
        assert session.seat is not None
        assert session.placed_at is not None
        self.floor.give_back(session)
        hold = Hold(session, session.seat, session.placed_at, now)
        for name in charged_to(session):
            self._usage[name] = added(self._usage.get(name), hold, self._rules.policy.half_life, self._rules.policy.entry_penalty)
        if self._rules.quotas:
            self._week.add_hold(hold)
        if done and self._learns:
            self._run_times.ended(replace(session, phase=Phase.ENDED, outcome=Outcome.DONE, ended_at=now))
        self.chances.room_grew(session.seat.node)
