"""What one shape of request asks of the arrays: on which nodes it may fit, what it takes there, and as what pod a placer sees it.

Each test here is one that every seat passes (fit.py), so that no node is left out on which it would fit.
"""
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.fit import CPU_ONLY_CPUS_MILLI, DEFAULT_PORTION, GUEST_PART, Refusal, is_kind
from gpufairy.core.floor_arrays import GRAIN, FloorArrays, NodeModel, OpenGpus, hundredths
from gpufairy.core.floor_leavers import Missing
from gpufairy.core.node import Node
from gpufairy.core.placement_mix import WHOLE
from gpufairy.core.placement_rooms import Taking
from gpufairy.core.session import Request
from gpufairy.core.share import PARTS, Share, ShareKind

Nodes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Costs = NDArray[np.int32] | NDArray[np.int64]
Amount = int | NDArray[np.int64]  # the same on all nodes, or of each
Key = tuple[Share, int | None, int | None, str | None, str | None, int | None, str | None, bool]
ANY_MODEL: frozenset[str] = frozenset()
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class FloorPod:
    """A request as a placer sees it. What depends on the node it lands on is as on a usual one."""

    request: Request
    cpu: int
    memory: int
    num_gpu: int
    gpu_milli: int
    models: frozenset[str] = ANY_MODEL


@dataclass(frozen=True, slots=True)
class Usual:
    """What most GPUs of a floor are like, and what of the hosts there is to each."""

    gpu_memory_bytes: int
    fgpu_parts: int
    cpus_milli: int
    memory_bytes: int

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "Usual":
        there = list(nodes)
        gpus = Counter((gpu.memory_bytes, gpu.fgpu_parts) for node in there for gpu in node.gpus)
        memory_bytes, fgpu_parts = max(gpus, key=lambda like: (gpus[like], like), default=(1, PARTS))
        of_hosts = sum(node.cpus_milli for node in there), sum(node.memory_bytes for node in there)
        return cls(max(1, memory_bytes), max(1, fgpu_parts), *(total // max(1, gpus.total()) for total in of_hosts))


def key_of(request: Request) -> Key:
    """The same for all that fit alike: neither whose it is nor how long it stays is in it."""
    return (
        request.share, request.cpus_milli, request.memory_bytes, request.gpu_kind, request.pool, request.gpu_memory_bytes, request.on_gpu,
        request.preemptible,
    )  # fmt: skip


def pod_of(request: Request, usual: Usual, models: Iterable[NodeModel]) -> FloorPod:
    gpus, milli = gpus_of(request, usual)
    portion = gpus * milli / WHOLE * DEFAULT_PORTION
    cpus = int(portion * usual.cpus_milli) if gpus else CPU_ONLY_CPUS_MILLI
    cpus = cpus if request.cpus_milli is None else request.cpus_milli
    memory = int((portion if gpus else DEFAULT_PORTION * cpus / max(1, usual.cpus_milli)) * usual.memory_bytes)
    memory = memory if request.memory_bytes is None else request.memory_bytes
    return FloorPod(request, cpus, memory, gpus, milli, models_for(request, models) if gpus else ANY_MODEL)


def gpus_of(request: Request, usual: Usual) -> tuple[int, int]:
    """How many, and thousandths of each. Of MIG none: to a placer such GPUs are not there."""
    share = request.share
    if share.kind in (ShareKind.NONE, ShareKind.MIG):
        return 0, 0
    parts = share.parts if share.kind is not ShareKind.FGPU else max(1, share.parts * PARTS // usual.fgpu_parts)
    if parts >= PARTS:
        return parts // PARTS, WHOLE
    if request.gpu_memory_bytes is not None:
        parts = max(parts, request.gpu_memory_bytes * PARTS // usual.gpu_memory_bytes)
    return 1, min(max(1, hundredths(parts)) * GRAIN, WHOLE - GRAIN)


def models_for(request: Request, models: Iterable[NodeModel]) -> frozenset[str]:
    if request.gpu_kind is None and request.pool is None:
        return ANY_MODEL
    open_to = (model for model in models if request.pool in (None, model.pool) and has_kind(model.kinds, request.gpu_kind))
    return frozenset(model.name for model in open_to)


def has_kind(kinds: Iterable[str], wanted: str | None) -> bool:
    return any(is_kind(kind, wanted) for kind in kinds)


class Wish:
    def __init__(self, request: Request, arrays: FloorArrays, usual: Usual, on_node: int | None) -> None:
        """`on_node`: where the one GPU is that it asks for by name; None: it names none, or one that is not there."""
        self.request, self._arrays, self._kind = request, arrays, request.share.kind
        self.pod = pod_of(request, usual, arrays.models)
        self.taking = Taking.of(self.pod.num_gpu, self.pod.gpu_milli)
        self.is_mig = self._kind is ShareKind.MIG
        self.is_fraction = self.pod.num_gpu == 1 and self.pod.gpu_milli < WHOLE
        self._in_pool = np.array([request.pool in (None, model.pool) for model in arrays.models])[arrays.model_number]
        self._of_kind = self._has_gpus(on_node)
        self._may_use = self._in_pool & self._of_kind
        self._anywhere = bool(self._may_use.all())
        self._devices = self._devices_of_kind()
        self.cpus, self.memory = needs_on(request, arrays)
        self.costs: Costs = np.empty(0, dtype=np.int64)  # of every node, as of so many changes
        self.seen = self.words_seen = -1
        self.words: tuple[Refusal, ...] = ()

    @property
    def _open(self) -> OpenGpus:
        return self._arrays.to_guests if self.request.preemptible else self._arrays.to_all

    def may_fit(self, nodes: Nodes | None) -> Mask:
        """None: of all."""
        fits = picked(self._arrays.cpu_open, nodes) >= amount_on(self.cpus, nodes)
        fits &= picked(self._arrays.mem_free, nodes) >= amount_on(self.memory, nodes)
        if not self._anywhere:
            fits &= picked(self._may_use, nodes)
        gpus = self._enough_gpus(nodes)
        if gpus is not None:
            fits &= gpus
        return fits

    def first_lacks(self) -> NDArray[np.int8]:
        """Of every node which of the tests it fails first, from 1 (floor_words.py); 0: none of them."""
        there = self._arrays
        tests = (
            there.ready, self._in_pool, self._of_kind, self._enough_gpus(None), there.cpu_free >= self.cpus, there.mem_free >= self.memory,
        )  # fmt: skip
        lacks = np.zeros(there.n, dtype=np.int8)
        for place in range(len(tests), 0, -1):
            passed = tests[place - 1]
            if passed is not None:
                np.copyto(lacks, np.int8(place), where=~passed)
        return lacks

    def could_fit(self) -> Mask:
        """Where it might once all who sit there have left."""
        there = self._arrays
        hopeful: Mask = self._may_use & there.ready & (there.cpu_cap >= self.cpus) & (there.mem_cap >= self.memory)
        if self._kind is ShareKind.WHOLE:
            hopeful &= there.gpu_count >= self.pod.num_gpu
        return hopeful

    def missing(self, nowhere: Mask) -> Missing:
        """On every node. `nowhere`: where it does not fit now, whatever is free there in all."""
        asked = self.request.share.parts if self._kind in (ShareKind.WHOLE, ShareKind.FRACTION) else 0
        there = self._arrays
        return Missing(asked - self._open.total, self.cpus - there.cpu_free, self.memory - there.mem_free, nowhere)

    def harm(self, nodes: Nodes) -> NDArray[np.int64]:
        """While nothing is known of those to come: a fraction opens no GPU if another is open, and leaves no scraps; guests borrow last."""
        room = self._arrays.to_all
        if self._kind is ShareKind.WHOLE:
            return (room.idle[nodes] < self.pod.num_gpu).astype(np.int64) << 60
        if self._kind not in (ShareKind.FRACTION, ShareKind.FGPU):
            return np.zeros(len(nodes), dtype=np.int64)
        share, asked = room.share[:, nodes], self._asked_parts(nodes)
        left = np.where(share >= asked, share - asked, PARTS).min(axis=0).astype(np.int64)
        opens = (room.whole[:, nodes] & (share - asked == left)).any(axis=0)
        harm: NDArray[np.int64] = (opens.astype(np.int64) << 60) + (left << 39)
        return harm

    def _has_gpus(self, on_node: int | None) -> Mask:
        there = self._arrays
        if self._kind is ShareKind.NONE:
            return np.ones(there.n, dtype=bool)
        kinds = (model.mig_kinds if self.is_mig else model.kinds for model in there.models)
        found: Mask = np.array([has_kind(of_one, self.request.gpu_kind) for of_one in kinds], dtype=bool)[there.model_number]
        if self.request.on_gpu is not None:
            found &= np.arange(there.n) == (-1 if on_node is None else on_node)
        return found

    def _devices_of_kind(self) -> Mask | None:
        """[device, node]; None: all of them. Where no node has several kinds, those of the wrong one are left out as a whole."""
        if self.request.gpu_kind is None or all(len(model.kinds) < 2 for model in self._arrays.models):
            return None
        right = np.array([is_kind(kind, self.request.gpu_kind) for kind in self._arrays.gpu_kinds])
        found: Mask = right[self._arrays.kind_number]
        return found

    def _enough_gpus(self, nodes: Nodes | None) -> Mask | None:
        """None: it needs none, or one in MIG mode, of which arrays know nothing."""
        if self._kind in (ShareKind.NONE, ShareKind.MIG):
            return None
        if self._devices is None and self._kind is ShareKind.WHOLE:
            return picked(self._open.idle, nodes) >= self.pod.num_gpu
        if self._devices is None and self._kind is ShareKind.FRACTION and self.request.gpu_memory_bytes is None:
            return picked(self._open.largest, nodes) >= self.request.share.parts
        devices = self._open_devices(nodes)
        if self._devices is not None:
            devices &= picked(self._devices, nodes)
        enough: Mask = devices.sum(axis=0) >= (self.pod.num_gpu if self._kind is ShareKind.WHOLE else 1)
        return enough

    def _open_devices(self, nodes: Nodes | None) -> Mask:
        """[device, node]: those that have what it asks of each."""
        if self._kind is ShareKind.WHOLE:
            return picked(self._open.whole, nodes).copy()
        asked, memory = self._asked_parts(nodes), self.request.gpu_memory_bytes
        if memory is None:
            roomy: Mask = picked(self._open.share, nodes) >= asked
        else:
            roomy = (picked(self._open.parts, nodes) >= asked) & (picked(self._open.memory, nodes) >= memory)
        if self._kind is ShareKind.FGPU:
            # As many fGPU as are whole GPUs are those, to which other rules apply than to shares.
            roomy |= (asked >= PARTS) & (picked(self._open.idle, nodes) * PARTS >= asked)
        return roomy

    def _asked_parts(self, nodes: Nodes | None) -> Amount:
        if self._kind is ShareKind.FRACTION:
            return self.request.share.parts
        return np.maximum(1, self.request.share.parts * PARTS // picked(self._arrays.fgpu_parts, nodes))


def needs_on(request: Request, arrays: FloorArrays) -> tuple[Amount, Amount]:
    """As fit.needs, of all nodes at once. Where it depends on the GPU and not on the node alone, what is not asked for is nothing."""
    cpus, memory = request.cpus_milli, request.memory_bytes
    if cpus is not None and memory is not None:
        return cpus, memory
    if request.share.kind in (ShareKind.FGPU, ShareKind.MIG):
        return cpus or 0, memory or 0
    parts, caps = request.share.parts, np.maximum(arrays.cpu_cap, 1)
    if parts:
        portion = parts / (np.maximum(arrays.all_gpus, 1) * PARTS) * DEFAULT_PORTION
        by_default = portion * arrays.cpu_cap
    else:
        portion = np.minimum(1.0, (cpus or CPU_ONLY_CPUS_MILLI) / caps) * DEFAULT_PORTION
        by_default = np.minimum(CPU_ONLY_CPUS_MILLI, arrays.cpu_cap)
    least = GUEST_PART if request.preemptible else 1
    some: Amount = -(-np.maximum(1, by_default.astype(np.int64)) // least) if cpus is None else cpus
    return some, -(-(portion * arrays.mem_cap).astype(np.int64) // least) if memory is None else memory


def picked(array: NDArray[T], nodes: Nodes | None) -> NDArray[T]:
    """Of these nodes, which are the last axis."""
    return array if nodes is None else array.take(nodes, axis=-1)


def amount_on(amount: Amount, nodes: Nodes | None) -> Amount:
    return amount if isinstance(amount, int) or nodes is None else amount.take(nodes)
