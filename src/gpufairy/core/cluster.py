"""Cluster: one frozen picture of everything planning looks at."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from gpufairy.core.ledger import Usage
from gpufairy.core.node import Node
from gpufairy.core.queue import Queue
from gpufairy.core.room import Room, rooms
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


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: tuple[Node, ...]
    holding: tuple[Session, ...] = ()  # those with a seat
    waiting: Mapping[str, Queue] = field(default_factory=dict)  # by owner
    usage: Mapping[str, Usage] = field(default_factory=dict)
    policy: Policy = Policy()

    def rooms(self) -> dict[str, Room]:
        return rooms(self.nodes, (session.seat for session in self.holding if session.seat is not None))


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
