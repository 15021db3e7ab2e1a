"""Builders: small clusters and sessions for tests, with everything that does not matter filled in."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from gpufairy.core.cluster import Cluster, Policy
from gpufairy.core.lifecycle import Phase
from gpufairy.core.mig import MigProfile, MigTable
from gpufairy.core.node import Gpu, Node
from gpufairy.core.plan import Plan, plan
from gpufairy.core.queue import Queue
from gpufairy.core.session import Request, Session, SessionKind
from gpufairy.core.share import PARTS, parse_share
from gpufairy.core.steps import place

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
GIB = 2**30
_numbers = count(1)

# A small card cut like an A100-40GB: 7 compute slices, 8 memory slices.
A100_CUTS = MigTable(
    7, 8,
    (
        MigProfile("1g.5gb", 1, 1, (0, 1, 2, 3, 4, 5, 6), 5 * GIB),
        MigProfile("1g.5gb+me", 1, 1, (0, 1, 2, 3, 4, 5, 6), 5 * GIB),
        MigProfile("2g.10gb", 2, 2, (0, 2, 4), 10 * GIB),
        MigProfile("3g.20gb", 3, 4, (0, 4), 20 * GIB),
        MigProfile("7g.40gb", 7, 8, (0,), 40 * GIB),
    ),
)  # fmt: skip


def a_gpu(index: int = 0, node: str = "gpu01", **fields: object) -> Gpu:
    return replace(Gpu(index, f"GPU-{node}-{index}", "A100-40GB", 40 * GIB), **fields)


def a_node(name: str = "gpu01", gpus: int = 1, cpus: int = 16, memory_gib: int = 128, mig: bool = False, **fields: object) -> Node:
    cards = tuple(a_gpu(index, name, mig=A100_CUTS if mig else None) for index in range(gpus))
    return replace(Node(name, cpus * 1000, memory_gib * GIB, cards), **fields)


def a_session(name: str = "", gpus: str = "1", owner: str = "ann", **fields: object) -> Session:
    """Fields of the request are given by their own names: cpus_milli=…, time_limit=…"""
    number = next(_numbers)
    in_request = {key: fields.pop(key) for key in list(fields) if key in Request.__dataclass_fields__}
    request = Request(share=parse_share(gpus), command=("true",), **{"cpus_milli": 1000, "memory_bytes": GIB, **in_request})
    session = Session(
        id=f"s{number:06}", name=name or f"session-{number}", owner=owner, kind=SessionKind.BATCH, request=request,
        submitted_at=NOW - timedelta(minutes=10), since=NOW - timedelta(minutes=10), number=number,
    )  # fmt: skip
    return replace(session, **fields)


def a_cluster(nodes=(), waiting=(), holding=(), **fields: object) -> Cluster:
    queues = {owner: Queue(s for s in waiting if s.owner == owner) for owner in {s.owner for s in waiting}}
    return replace(Cluster(tuple(nodes or [a_node()]), tuple(holding), queues, {}, Policy()), **fields)


def seated(sessions, nodes, minutes_ago: float = 5, holding=()) -> list[Session]:
    """The sessions, running on the nodes where plan() puts them."""
    start = NOW - timedelta(minutes=minutes_ago)
    made = plan(a_cluster(nodes, sessions, holding), start)
    assert len(made.placed) == len(sessions), made
    return [replace(place(p.session, p.seat, start, "").after, phase=Phase.RUNNING, started_at=start) for p in made.placed]


def names(made: Plan) -> list[str]:
    return [placed.session.name for placed in made.placed]


__all__ = ["A100_CUTS", "GIB", "NOW", "PARTS", "a_cluster", "a_gpu", "a_node", "a_session", "names", "seated"]
