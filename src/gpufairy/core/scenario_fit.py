"""ScenarioFit: a pod goes where the room that is left keeps the most worth over sampled futures (docs/placement.md).

Pure, and without the server: `prepare(cluster, hint, seed)`, then `place(pod, cluster)` for each pod. It learns the mix by itself
from what arrives, follows what changes by `cluster.log`, and never refuses a pod that fits. Who keeps lists of where pods fit,
as floor.py does, asks for `costs` and `device` alone.
"""
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.placement_classes import classes_of
from gpufairy.core.placement_host import Host, grains_for, hosts_of, scarcer
from gpufairy.core.placement_mix import WHOLE, NodeKind, P, Pod, mix_of, worths
from gpufairy.core.placement_recent import RecentPods
from gpufairy.core.placement_rooms import Rooms, Taking
from gpufairy.core.placement_worth import FUTURES, GRAIN_MILLI, ClassWorth, draw_futures, scale_of

SLOPE_GPUS = 0.5  # worth the last node of the order must save over the first: keeps few half open. 0.25 to 2 are alike, 0.1 is too little

MOST_SLOPE = 2**27  # table units: sums with it stay in 32 bits, and below what is lost where a pod does not fit
MOST_LOOKS = 2000  # shapes whose costs are kept, four bytes a node each; then they are looked at anew

P_contra = TypeVar("P_contra", bound=Pod, contravariant=True)


class Nodes(Protocol):
    """What costs are reckoned from. `log` names each node whose room changed, in order; it only grows."""

    n: int
    gpu_count: NDArray[np.int64]
    cpu_cap: NDArray[np.int64]
    cpu_free: NDArray[np.int64]
    gpu_free: NDArray[np.int64]  # [node, device], in thousandths

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def model(self) -> Sequence[str]: ...
    @property
    def log(self) -> Sequence[int]: ...
    def tightest_gpu(self, node: int, milli: int) -> int: ...


class Cluster(Nodes, Protocol[P_contra]):
    """What a placer looks at."""

    def feasible(self, pod: P_contra) -> NDArray[np.bool_]: ...
    def idle_gpus(self, node: int, count: int) -> tuple[int, ...]: ...


class _Look:
    """The cost of every node for one shape, as of `seen` changes."""

    __slots__ = ("cost", "host", "seen", "taking")

    def __init__(self, host: int, pod: Pod, nodes: int) -> None:
        self.host = host
        self.taking = Taking.of(pod.num_gpu, pod.gpu_milli)
        self.seen = -1
        self.cost = np.zeros(nodes, dtype=np.int32)


class ScenarioFit:
    name = "scenario fit"

    def prepare(self, cluster: Nodes, hint: Iterable[Pod], seed: int) -> None:
        """`hint`: pods known to be like those to come; none: it learns from arrivals alone."""
        self._seed = seed
        self._recent = RecentPods(hint)
        self.lessons = 0  # costs of before the last one are no longer true
        self.renew(cluster)


    def renew(self, cluster: Nodes, told: Callable[[Any], Pod] | None = None) -> None:
        """Nodes came or went: their places are dealt anew, what was learnt of the mix stays. `told`: what a pod of before is there."""
        if told is not None:
            self._recent.retell(told)
        # A hashed order mixes small and large nodes; one by size or name would starve a kind of its rare shapes.
        order = sorted(range(cluster.n), key=lambda node: (zlib.crc32(cluster.names[node].encode()), cluster.names[node]))
        self._rank = np.empty(cluster.n, dtype=np.int64)
        self._rank[order] = np.arange(cluster.n)
        self._gpus = cluster.gpu_count.tolist()
        self._hosts = hosts_of(cluster)
        self._stamp = np.zeros(cluster.n, dtype=np.int64)
        self._learn(cluster)

    def place(self, pod: P, cluster: Cluster[P]) -> tuple[int, tuple[int, ...]] | None:
        """For a pod that has just arrived."""
        self.note(pod, cluster)
        return self.place_again(pod, cluster)

    def note(self, pod: Pod, cluster: Nodes) -> None:
        """It has arrived, and counts in the mix; where it goes is asked apart."""
        if self._recent.note(pod):
            self._learn(cluster)

    def place_again(self, pod: P, cluster: Cluster[P]) -> tuple[int, tuple[int, ...]] | None:
        """As `place`, for one that asked before: a pod tried ten times is still one of its shape."""
        open_to = cluster.feasible(pod).nonzero()[0]
        if not len(open_to):
            return None
        look = self._looked(pod, cluster)
        costs = look.cost.take(open_to)
        tied = open_to[(costs == costs.min()).nonzero()[0]]
        node = int(tied[0] if len(tied) == 1 else tied[self._rank.take(tied).argmin()])  # by name, never by where it stands in the list
        if pod.num_gpu == 0:
            return node, ()
        if pod.num_gpu == 1 and pod.gpu_milli < WHOLE:
            left = self._host.free(cluster).item(node) - look.host
            return node, (self._device(look.taking, node, left, pod.gpu_milli, cluster),)
        return node, cluster.idle_gpus(node, pod.num_gpu)

    def costs(self, taking: Taking, cluster: Nodes, nodes: NDArray[np.intp], host: NDArray[np.int64] | int) -> NDArray[np.int32]:
        """On each of these nodes, where it fits; the least is the best. `host`: CPU or memory that it takes, of each or the same on all."""
        self.follow(cluster)
        left = self._host.free(cluster).take(nodes)
        left -= host
        return self._cost(taking, nodes, left)

    def device(self, taking: Taking, cluster: Nodes, node: int, host: int) -> int:
        """For a share of one device: the one to take on this node, where it fits."""
        self.follow(cluster)
        left = self._host.free(cluster).item(node) - host
        return self._device(taking, node, left, taking.device * GRAIN_MILLI, cluster)

    def _learn(self, cluster: Nodes) -> None:
        self.lessons += 1
        pods = self._recent.learnt()
        self._host: Host = scarcer(pods, self._hosts)
        self.counts_memory = self._host is not self._hosts[0]  # of a host, and not its CPUs
        self._grains = grains_for(pods, self._host, sum(self._gpus))
        mix, hosts, most_gpus = mix_of(pods, self._host.asked), self._host.caps, max(self._gpus, default=1)
        kinds: Counter[NodeKind] = Counter()
        for model, gpus, host in zip(cluster.model, self._gpus, hosts, strict=True):
            kinds[NodeKind(model, gpus, host)] += gpus
        worth = {shape: value for shape, value in worths(mix, kinds).items() if value > 0}
        scale = scale_of(worth, most_gpus)
        whole = {shape: max(1, round(value * scale)) for shape, value in worth.items()}
        futures = draw_futures(mix, self._seed) if whole else []
        alike = classes_of(cluster.model, hosts, self._gpus, frozenset().union(*futures) & whole.keys(), self._grains)
        self._class = alike.of_node
        self._grain = np.array([alike.classes[place].host_grain for place in self._class], dtype=np.int64)
        self._tables = [ClassWorth(one, futures, whole) for one in alike.classes] if whole else []
        slope = np.minimum(self._rank * (SLOPE_GPUS * scale * FUTURES / max(cluster.n, 1)), MOST_SLOPE)
        self._slope: NDArray[np.int32] = np.round(slope).astype(np.int32)
        self._meet_all(cluster)

    def _meet_all(self, cluster: Nodes) -> None:
        self._looks: dict[tuple[int, int, int], _Look] = {}
        self._rooms = Rooms(self._tables, max(self._gpus, default=1), self._grains) if self._tables else None
        self.has_learnt = self._rooms is not None  # before that a cost is a place in the order and no more
        self._room = np.zeros(cluster.n, dtype=np.int32)
        self._before = self._slope.copy()
        self._followed = len(cluster.log)
        for node in range(cluster.n):
            self._meet(node, cluster)

    def _looked(self, pod: P, cluster: Cluster[P]) -> _Look:
        self.follow(cluster)
        key = (self._host.asked(pod), pod.num_gpu, pod.gpu_milli)
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = _Look(key[0], pod, cluster.n)
        changed = (self._stamp > look.seen).nonzero()[0]
        free = self._host.free(cluster).take(changed)
        # Where the host has too little no cost is needed: feasible() leaves it out until it changes again.
        enough = free >= look.host
        if np.count_nonzero(enough) < len(changed):
            changed, free = changed[enough], free[enough]
        if len(changed):
            free -= look.host
            look.cost[changed] = self._cost(look.taking, changed, free)
        look.seen = self._followed
        return look

    def follow(self, cluster: Nodes) -> None:
        """Brings it in step with the log; to be called at times where the log is cut short."""
        log = cluster.log
        if len(log) == self._followed:
            return
        changed = log[self._followed :]
        self._followed = len(log)
        if len(self._looks) > MOST_LOOKS or (self._rooms is not None and self._rooms.is_full):
            for table in self._tables:
                table.forget()
            self._meet_all(cluster)
            return
        for node in changed if len(changed) == 1 else set(changed):
            self._meet(node, cluster)

    def _meet(self, node: int, cluster: Nodes) -> None:
        self._stamp[node] = self._followed
        if self._rooms is None:
            return
        left = tuple(cluster.gpu_free[node, : self._gpus[node]].tolist())
        number = self._rooms.number(self._class[node], left)
        self._room[node] = number
        grains = min(self._host.free(cluster).item(node) // self._grain.item(node), self._grains)
        self._before[node] = self._slope.item(node) + self._rooms.worth.item(self._rooms.rooms[number].row + grains)

    def _cost(self, taking: Taking, nodes: NDArray[np.intp], left: NDArray[np.int64]) -> NDArray[np.int32]:
        """The worth each node loses by the pod, and how far back in the order it stands. `left`: of the host, after it; is used up."""
        if self._rooms is None:
            return self._slope.take(nodes)
        rows = self._rooms.after(taking, self._room.take(nodes))
        grains = np.floor_divide(left, self._grain.take(nodes), out=left)
        if self.counts_memory:  # of memory what is free may be more than was ever seen free
            np.minimum(grains, self._grains, out=grains)
        rest = self._rooms.worth.take(rows + grains[:, None])
        cost: NDArray[np.int32] = self._before.take(nodes)
        cost -= np.maximum.reduce(rest, axis=1) if rest.shape[1] > 1 else rest[:, 0]
        return cost

    def _device(self, taking: Taking, node: int, left_of_host: int, milli: int, cluster: Nodes) -> int:
        """Of the devices that keep the most, the tightest."""
        if self._rooms is None:
            return cluster.tightest_gpu(node, milli)
        grains = min(max(0, left_of_host // self._grain.item(node)), self._grains)
        wanted = self._rooms.best_device(taking, self._room.item(node), grains)
        if wanted is None:  # fits by less than a grain
            return cluster.tightest_gpu(node, milli)
        left = cluster.gpu_free[node, : self._gpus[node]].tolist()
        return next(device for device, room in enumerate(left) if room // GRAIN_MILLI == wanted)
