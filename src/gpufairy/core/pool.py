"""Pool: nodes of one sort in a cloud, that come when they are asked for and go when nobody uses them. None need be there.

A node that could come is offered to planning under a name of its own, `train-gpu+1`: no node of Kubernetes can have a `+` in its name.
"""
import re
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.node import Gpu, Node

COMING = "+"
USUAL_BOOT_S = 180  # until one was seen to come: most clouds take two to four minutes for a GPU node
BOOTS_KEPT = 5  # the median of so many: one that took an hour for want of machines must not be told to everybody after it
MOST_OFFERED = 32  # nodes of one pool that nobody sits on yet: planning looks at each, and the next are offered when these are taken
POOL_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?")  # as labels of Kubernetes and names in all clouds take it
# Of what the machine has, Kubernetes and its own pods keep some; the first node that comes tells how much.
KEPT_CPUS_MILLI, KEPT_MEMORY_PART, KEPT_MEMORY_BYTES = 250, 0.08, 512 * 2**20


class PoolState(StrEnum):
    MAKING = "making"  # what it needs in the cloud is not all there yet
    READY = "ready"
    REMOVING = "removing"


class Cloud(StrEnum):
    EKS = "eks"
    GKE = "gke"
    KARPENTER = "karpenter"


@dataclass(frozen=True, slots=True)
class Machine:
    """What each node of a pool is."""

    instance: str  # as the cloud calls it: g5.xlarge
    gpu_kind: str
    gpus: int
    gpu_memory_bytes: int
    cpus_milli: int
    memory_bytes: int
    price_micros: int | None = None  # an hour, in millionths of a dollar; None: not known
    price_of: str = ""  # where and when that was the price


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    cloud: Cloud
    cluster: str
    machine: Machine
    least: int
    most: int
    made_by: str
    made_at: datetime
    state: PoolState = PoolState.MAKING
    boots_s: tuple[int, ...] = ()  # how long the last ones took to come, the newest last
    options: Mapping[str, str] = field(default_factory=dict)  # what one cloud wants to know and others do not
    trouble: str = ""  # why it is not as it should be, in words; empty: nothing is wrong

    @property
    def boot_s(self) -> int:
        return round(statistics.median(self.boots_s)) if self.boots_s else USUAL_BOOT_S

    @property
    def may_grow(self) -> bool:
        return self.state is PoolState.READY


@dataclass(frozen=True, slots=True)
class Step:
    """One thing in a cloud or a cluster that a pool needs."""

    what: str  # "node group", "tags of the Auto Scaling group"
    name: str
    there: bool
    details: Mapping[str, str] = field(default_factory=dict)


def pool_name(text: str) -> str:
    if not POOL_NAME.fullmatch(text):
        next_step = "Use up to 40 of a-z, 0-9 and -, beginning with a letter and ending with a letter or figure."
        raise BadInput(f"pool: {shown(text)} is no name of a pool", next_step)
    return text


def coming_name(pool: str, number: int) -> str:
    return f"{pool}{COMING}{number}"


def pool_coming(node: str) -> str | None:
    """The pool of a node that is only coming, by its name. None: it is a real one."""
    pool, sign, number = node.rpartition(COMING)
    return pool if sign and number.isdecimal() else None


def coming_nodes(pool: Pool, there: int, used: Collection[str], like: Node | None = None, *, closed: str = "") -> list[Node]:
    """Those on which somebody sits already (`used`), and as many more as the pool may grow by. `there`: how many real ones it has.
    `like`: a real one, if any was seen. `closed`: why nobody gets a part of a GPU there, if so."""
    more = min(pool.most - there - len(used), MOST_OFFERED) if pool.may_grow else 0
    names, number = list(used), 0
    while len(names) < len(used) + more:
        number += 1
        if (name := coming_name(pool.name, number)) not in used:
            names.append(name)
    return [coming_node(pool, name, like, closed) for name in sorted(names, key=lambda name: int(name.rpartition(COMING)[2]))]


def coming_node(pool: Pool, name: str, like: Node | None, closed: str) -> Node:
    machine, uuid = pool.machine, f"kube:{name}/gpu/{{}}"  # as the engine names GPUs of which it knows the number alone
    gpus = tuple(
        Gpu(place, uuid.format(place), machine.gpu_kind, machine.gpu_memory_bytes, closed=closed) for place in range(machine.gpus)
    )
    cpus = machine.cpus_milli - KEPT_CPUS_MILLI if like is None else like.cpus_milli
    memory = round(machine.memory_bytes * (1 - KEPT_MEMORY_PART)) - KEPT_MEMORY_BYTES if like is None else like.memory_bytes
    return Node(name, max(0, cpus), max(0, memory), gpus, pool=pool.name, coming_s=pool.boot_s)


WHOLE_ALONE = "a node that is only coming takes whole GPUs alone; parts of them can be had once it is there"


def coming_words(pool: Pool, waited_s: float) -> str:
    """Told to whoever waits for it. By whole minutes: each change is written down."""
    left_s, boot = pool.boot_s - waited_s, about(pool.boot_s)
    if left_s >= 60:
        return f"node is coming, {about(left_s)}"
    if waited_s <= max(2 * pool.boot_s, 120):
        return "node is coming, less than a minute" if left_s >= 0 else "node is coming, any moment now"
    return f"node is coming, but takes long: others of pool {pool.name} took {boot}"


def about(seconds: float) -> str:
    return f"about {max(1, round(seconds / 60))} min"


def learnt(pool: Pool, seconds: float) -> tuple[int, ...]:
    return (*pool.boots_s, max(1, round(seconds)))[-BOOTS_KEPT:]


def price_words(machine: Machine, nodes: int) -> str:
    """An hour of so many of them."""
    if machine.price_micros is None:
        return "price not known"
    return f"${machine.price_micros * nodes / 1_000_000:,.2f} an hour"
