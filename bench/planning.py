"""plan() itself: 10,000 nodes and 10,000 waiting, empty, full and with few changes; and openb's cluster through the very same code."""
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np

from bench import openb
from bench.figures import Figure, Report
from gpufairy.control import collector
from gpufairy.core.cluster import Cluster, Policy
from gpufairy.core.fit import fit
from gpufairy.core.floor import Floor
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Gpu, Node
from gpufairy.core.plan import Plan, plan
from gpufairy.core.queue import Queue
from gpufairy.core.session import Request, Seat, Session, SessionKind
from gpufairy.core.share import NO_GPU, PARTS, Share, ShareKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODES = WAITING = 10_000
OWNERS = 50
SIZES = (1, 2, 4, 8)  # GPUs of a node
CPUS_A_GPU, MEMORY_A_GPU = 12_000, 96 * 2**30
KINDS = (("A100-40GB", 40), ("H100-80GB", 80), ("T4", 16))  # with GiB
LIMITS = (timedelta(minutes=30), timedelta(hours=2), timedelta(hours=8), timedelta(days=1), None)
PAST = 1600  # requests that a kept floor has learnt from
CHANGES, PASSES, RUNS = 10, 20, 3
ONE_GPU = Request(Share(ShareKind.WHOLE, PARTS), ("true",))


def measure(nodes: int = NODES, waiting: int = WAITING) -> Report:
    there = machines(nodes)
    return Report("planning", [*empty_figures(there, waiting), *full_figures(there, waiting), openb_speed(), openb_allotted()])


def empty_figures(there: Sequence[Node], waiting: int) -> list[Figure]:
    """All can be placed. Made in it: the server has just started, the floor is laid out and the mix learnt in the same pass."""
    wanted = wishes(waiting, seed=1)
    cluster, shapes = a_cluster(there, sessions(wanted, "new")), len(set(map(shape_alone, wanted)))
    fresh = min(timed(partial(planned, cluster, Floor())) for _ in range(RUNS))
    floor, kept = Floor(wishes(PAST, seed=2)), []
    for _ in range(RUNS + 1):
        floor.follow(cluster.nodes, ())
        kept.append(timed(partial(planned, cluster, floor)))
    placed, best = len(kept[-1].made.placed), min(kept[1:])
    shipped, usual = replace(cluster, policy=Policy()), []
    for _ in range(RUNS):
        floor.follow(cluster.nodes, ())
        usual.append(timed(partial(planned, shipped, floor)))
    what = f"plan of {len(there):,} nodes, {waiting:,} waiting of {shapes} shapes, floor kept"
    return [
        Figure(what, best.seconds, "s", 1, higher_is_better=False, note=f"{placed:,} placed; best of {RUNS} after the first"),
        Figure(
            f"the same as shipped, with {Policy().depth:,} seats in one pass", min(usual).seconds, "s", 1, higher_is_better=False,
            note=f"{len(usual[-1].made.placed):,} placed, the others in the passes after it",
        ),
        Figure("the same, floor made and mix learnt in it", fresh.seconds, "s", higher_is_better=False, note=f"best of {RUNS}"),
    ]  # fmt: skip


def full_figures(there: Sequence[Node], waiting: int) -> list[Figure]:
    """Every GPU is held by somebody, for one of several times."""
    held, floor = holders(there), Floor(wishes(PAST, seed=2))
    full = replace(a_cluster(there, sessions(wishes(waiting, seed=1, gpus=True), "new")), holding=held)
    floor.follow(full.nodes, full.holding)
    first = timed(partial(planned, full, floor))
    passes = []
    for number in range(PASSES):
        gone = {one.id for one in held[number * CHANGES : (number + 1) * CHANGES]}
        after = replace(full, holding=tuple(one for one in full.holding if one.id not in gone))
        passes.append(timed(partial(planned, after, floor)))
        full = replace(after, holding=(*after.holding, *running(passes[-1].made)), waiting=queues(without(after, passes[-1].made)))
    refused = f"{len(first.made.refusals):,} shapes refused in words, {len(held):,} hold seats"
    spent = [one.seconds * 1000 for one in passes]
    placed = sum(len(one.made.placed) for one in passes)
    return [
        Figure("plan of the same, full, without bound on the depth", first.seconds, "s", 1, higher_is_better=False, note=refused),
        Figure(
            f"pass after {CHANGES} have left, median of {PASSES}", statistics.median(spent), "ms", higher_is_better=False,
            note=f"slowest {max(spent):.0f}; {placed} placed in all",
        ),
    ]  # fmt: skip


def openb_speed() -> Figure:
    there = openb_nodes()
    coming = [of_pod(pod, None) for pod in openb.arrivals(openb.pods("default"), sum(len(node.gpus) for node in there), seed=42)]
    cluster = a_cluster(there, sessions(coming, "pod"))
    best = min(timed(partial(planned, cluster, Floor())) for _ in range(RUNS))
    placed = len(best.made.placed)
    note = f"{placed:,} placed in {best.seconds:.2f} s: floor, learning, turns, promise and words for the refused included"
    return Figure("openb (1,213 nodes) in one plan: placements a second", placed / best.seconds, "/s", note=note)


def openb_allotted() -> Figure:
    """As `placement` has it: one after the other, 100 % asked for; here by exact seats, and with what a floor rounds."""
    there, floor = openb_nodes(), Floor()
    floor.follow(there, ())
    gpus, asked, allotted, seen = sum(len(node.gpus) for node in there), 0.0, 0.0, []
    pods = openb.arrivals(openb.pods("default"), gpus, seed=42)
    for pod, session in zip(pods, sessions([of_pod(pod, None) for pod in pods], "pod"), strict=True):
        found = floor.seat(session, lambda room, prefer, wanted=session.request: fit(wanted, room, prefer=prefer))
        asked += pod.gpus
        if isinstance(found, Seat):
            floor.take(session, found)
            allotted += pod.gpus
        if round(asked / gpus * 100) == 100:
            seen.append(allotted / gpus * 100)
        elif asked > 1.01 * gpus:
            break
    return Figure("openb default through the floor: GPU allotted, 100 % asked", statistics.fmean(seen), "%", note="seed 42")


@dataclass(frozen=True, slots=True, order=True)
class Timed:
    seconds: float  # of one core
    made: Plan = field(compare=False)


def timed(work: Callable[[], Plan]) -> Timed:
    """As the place loop has it done."""
    with collector.put_off():
        began = time.process_time()
        made = work()
        return Timed(time.process_time() - began, made)


def planned(cluster: Cluster, floor: Floor) -> Plan:
    return plan(cluster, NOW, floor)


def machines(count: int) -> tuple[Node, ...]:
    return tuple(a_node(f"n{number:05}", SIZES[number % len(SIZES)], KINDS[number // len(SIZES) % len(KINDS)]) for number in range(count))


def a_node(name: str, gpus: int, kind: tuple[str, int]) -> Node:
    cards = tuple(Gpu(index, f"GPU-{name}-{index}", kind[0], kind[1] * 2**30) for index in range(gpus))
    return Node(name, gpus * CPUS_A_GPU, gpus * MEMORY_A_GPU, cards)


def openb_nodes() -> tuple[Node, ...]:
    there = openb.machines()
    bare = [a_node(name, one.gpus, (one.model, 16)) for name, one in zip(openb.dealt(there, seed=42).names, there, strict=True)]
    return tuple(replace(node, cpus_milli=one.cpu, memory_bytes=one.memory * 2**20) for node, one in zip(bare, there, strict=True))


def wishes(count: int, seed: int, *, gpus: bool = False) -> list[Request]:
    """Of the shapes of Alibaba's trace, with a time limit or without. `gpus`: none without a GPU."""
    pods, rng = [pod for pod in openb.pods("default") if pod.num_gpu or not gpus], np.random.default_rng(seed)
    drawn = [pods[place] for place in rng.integers(len(pods), size=count).tolist()]
    return [of_pod(pod, LIMITS[place]) for pod, place in zip(drawn, rng.integers(len(LIMITS), size=count).tolist(), strict=True)]


def of_pod(pod: openb.Pod, limit: timedelta | None) -> Request:
    return Request(share_of(pod), ("true",), pod.cpu, pod.memory * 2**20, time_limit=limit)


def share_of(pod: openb.Pod) -> Share:
    if not pod.num_gpu:
        return NO_GPU
    if pod.gpu_milli == openb.WHOLE:
        return Share(ShareKind.WHOLE, pod.num_gpu * PARTS)
    return Share(ShareKind.FRACTION, pod.gpu_milli * PARTS // openb.WHOLE)


def shape_alone(request: Request) -> Request:
    return replace(request, command=())


def sessions(wanted: Sequence[Request], name: str) -> list[Session]:
    return [
        Session(f"{name}-{n}", f"{name}-{n}", f"user{n % OWNERS:02}", SessionKind.BATCH, request, NOW, NOW, number=n)
        for n, request in enumerate(wanted)
    ]


def holders(there: Sequence[Node]) -> tuple[Session, ...]:
    """One to each GPU, with its part of the host."""
    floor = Floor()
    floor.follow(there, ())
    held: list[Session] = []
    for node in there:
        for session in sessions([ONE_GPU] * len(node.gpus), node.name):
            seat = fit(ONE_GPU, floor.rooms[node.name])
            assert isinstance(seat, Seat), seat
            floor.take(session, seat)
            began, limit = NOW - timedelta(seconds=len(held) % 1700), LIMITS[len(held) % len(LIMITS)]
            request = replace(ONE_GPU, time_limit=limit)
            held.append(replace(session, request=request, seat=seat, phase=Phase.RUNNING, placed_at=began, started_at=began))
    return tuple(held)


def running(made: Plan) -> list[Session]:
    return [replace(one.session, seat=one.seat, phase=Phase.RUNNING, placed_at=NOW, started_at=NOW) for one in made.placed]


def without(cluster: Cluster, made: Plan) -> list[Session]:
    placed = {one.session.id for one in made.placed}
    return [session for queue in cluster.waiting.values() for session in queue if session.id not in placed]


def queues(waiting: Sequence[Session]) -> dict[str, Queue]:
    return {owner: Queue(one for one in waiting if one.owner == owner) for owner in sorted({one.owner for one in waiting})}


def a_cluster(there: Sequence[Node], waiting: Sequence[Session]) -> Cluster:
    return Cluster(tuple(there), (), queues(waiting), policy=replace(Policy(), depth=10**6))
