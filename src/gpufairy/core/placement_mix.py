"""The mix of recent requests, and what each shape in it is worth: the share of a device it really uses, times how scarce
the nodes are that it may use. Placement keeps room by this worth (placement_worth.py). Nothing here knows of nodes in use.
"""
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

WHOLE = 1000  # thousandths: one GPU
EVEN_ENOUGH = 1e-3  # of a load: a finer spread of the demand changes no choice
MOST_ROUNDS = 60  # of spreading; two or three are the rule
MOST_PACKED = 2000  # pods: the shares of a larger mix are those of a like one of this size


class Pod(Protocol):
    """What a placer needs to know of a request."""

    @property
    def cpu(self) -> int: ...
    @property
    def num_gpu(self) -> int: ...
    @property
    def gpu_milli(self) -> int: ...
    @property
    def models(self) -> frozenset[str]: ...


P = TypeVar("P", bound=Pod)


@dataclass(frozen=True, slots=True)
class Shape:
    host: int  # CPU in thousandths, or memory: what the host is shorter of (placement_host.py)
    num_gpu: int
    gpu_milli: int  # of each GPU; WHOLE for whole ones
    models: tuple[str, ...]  # sorted; empty: any will do

    @property
    def is_fraction(self) -> bool:
        return self.num_gpu == 1 and self.gpu_milli < WHOLE

    @property
    def milli(self) -> int:
        return self.num_gpu * self.gpu_milli

    def may_use(self, model: str) -> bool:
        return not self.models or model in self.models


@dataclass(frozen=True, slots=True)
class NodeKind:
    model: str
    gpus: int
    host: int


Mix = Mapping[Shape, int]  # how often each shape came


def mix_of(pods: Iterable[P], host_of: Callable[[P], int]) -> Mix:
    """In an order of its own, so that what is drawn from it depends on the mix alone."""
    seen = Counter((host_of(pod), pod.num_gpu, pod.gpu_milli, pod.models) for pod in pods)
    named = {(host, num, milli, tuple(sorted(models))): count for (host, num, milli, models), count in seen.items()}
    return {Shape(*key): named[key] for key in sorted(named)}


def worths(mix: Mix, gpus_of: Mapping[NodeKind, int]) -> dict[Shape, float]:
    """In GPUs. A shape that no node may ever run, or that needs no GPU, is worth nothing."""
    scarce = scarcities(mix, gpus_of)
    return {shape: share * scarce[shape] if shape.num_gpu else 0.0 for shape, share in device_shares(mix).items()}


def device_shares(mix: Mix) -> dict[Shape, float]:
    """The GPUs a shape really uses: pack the mix on empty devices; a pod of x in a device filled to s is charged x / s.

    What pairs badly leaves waste behind, and is charged for it.
    """
    filled: dict[int, list[Shape]] = {}
    room: list[tuple[int, int]] = []  # (left, device), ascending
    packed = _scaled(mix)
    fractions = [shape for shape in packed if shape.is_fraction and shape.gpu_milli > 0]
    for shape in sorted(fractions, key=lambda shape: -shape.gpu_milli):
        for _ in range(packed[shape]):
            at = bisect_left(room, (shape.gpu_milli, -1))
            left, device = room.pop(at) if at < len(room) else (WHOLE, len(filled))
            filled.setdefault(device, []).append(shape)
            if left > shape.gpu_milli:
                insort(room, (left - shape.gpu_milli, device))
    charged: Counter[Shape] = Counter()
    for together in filled.values():
        total = sum(shape.gpu_milli for shape in together)
        for shape in together:
            charged[shape] += shape.gpu_milli / total  # type: ignore[assignment]
    return {shape: charged[shape] / packed[shape] if shape in charged else float(shape.num_gpu) for shape in mix}


def _scaled(mix: Mix) -> Mix:
    total = sum(mix.values())
    if total <= MOST_PACKED:
        return mix
    return {shape: max(1, round(count * MOST_PACKED / total)) for shape, count in mix.items()}


def scarcities(mix: Mix, gpus_of: Mapping[NodeKind, int]) -> dict[Shape, float]:
    """The lowest load open to a shape, once the whole demand is spread as evenly as its shapes allow.

    The demand is scaled to all GPUs, so a shape that may go everywhere on an unrestricted cluster has scarcity one.
    """
    kinds = [kind for kind in gpus_of if gpus_of[kind]]
    open_to = {shape: _open_to(shape, kinds) for shape in mix}
    total = sum(shape.milli * count for shape, count in mix.items()) or 1
    scale = sum(gpus_of[kind] for kind in kinds) / total
    demand: dict[tuple[int, ...], float] = {}
    for shape, count in mix.items():
        if open_to[shape]:
            demand[open_to[shape]] = demand.get(open_to[shape], 0.0) + shape.milli * count * scale
    load = _spread(demand, [float(gpus_of[kind]) for kind in kinds])
    return {shape: min((load[place] for place in places), default=0.0) for shape, places in open_to.items()}


def _open_to(shape: Shape, kinds: Sequence[NodeKind]) -> tuple[int, ...]:
    if not shape.num_gpu:
        return ()
    fits = (kind.gpus >= shape.num_gpu and kind.host >= shape.host and shape.may_use(kind.model) for kind in kinds)
    return tuple(place for place, fit in enumerate(fits) if fit)


def _spread(demand: Mapping[tuple[int, ...], float], gpus: Sequence[float]) -> list[float]:
    """The load of each kind of node: every group in turn moves its demand to where the others leave it lowest, until none gains."""
    flows = {places: [0.0] * len(gpus) for places in demand}
    taken = [0.0] * len(gpus)
    for _ in range(MOST_ROUNDS):
        moved = 0.0
        for places, wanted in demand.items():
            before = flows[places]
            others = [total - own for total, own in zip(taken, before, strict=True)]
            after = flows[places] = _poured(wanted, places, others, gpus)
            moved = max(moved, *(abs(new - old) / room for new, old, room in zip(after, before, gpus, strict=True)))
            taken = [total + new for total, new in zip(others, after, strict=True)]
        if moved < EVEN_ENOUGH:
            break
    return [total / room for total, room in zip(taken, gpus, strict=True)]


def _poured(wanted: float, places: Sequence[int], taken: Sequence[float], gpus: Sequence[float]) -> list[float]:
    """As water finds its level: the emptiest first, until the level no longer reaches the next."""
    order = sorted(places, key=lambda place: taken[place] / gpus[place])
    room = held = level = 0.0
    under: list[int] = []
    for place in order:
        if under and level <= taken[place] / gpus[place]:
            break
        under.append(place)
        room, held = room + gpus[place], held + taken[place]
        level = (wanted + held) / room
    poured = [0.0] * len(gpus)
    for place in under:
        poured[place] = max(0.0, level * gpus[place] - taken[place])
    return poured
