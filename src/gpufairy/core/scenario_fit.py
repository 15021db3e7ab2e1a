"""ScenarioFit: a pod goes where the room that is left keeps the most worth over sampled futures (docs/placement.md).

Pure, and without the server: `prepare(cluster, hint, seed)`, then `place(pod, cluster)` for each pod. It learns the mix by itself
from what arrives, follows what changes by `cluster.log`, and never refuses a pod that fits.
"""
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

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


class Cluster(Protocol[P_contra]):
    """What a placer looks at. `log` names each node whose room changed, in order; it only grows."""

    n: int
    names: Sequence[str]
    model: Sequence[str]
    gpu_count: NDArray[np.int64]
    cpu_cap: NDArray[np.int64]
    cpu_free: NDArray[np.int64]
    gpu_free: NDArray[np.int64]  # [node, device], in thousandths
    log: Sequence[int]

    def feasible(self, pod: P_contra) -> NDArray[np.bool_]: ...
    def tightest_gpu(self, node: int, milli: int) -> int: ...
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

    def prepare(self, cluster: Cluster[P], hint: Iterable[P], seed: int) -> None:
        """`hint`: pods known to be like those to come; none: it learns from arrivals alone."""
        self._seed = seed
        self._recent = RecentPods(hint)
        self.renew(cluster)

    def renew(self, cluster: Cluster[P]) -> None:
        """Nodes came or went: their places are dealt anew, what was learnt of the mix stays."""
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
        if self._recent.note(pod):
            self._learn(cluster)
        return self.place_again(pod, cluster)

    def place_again(self, pod: P, cluster: Cluster[P]) -> tuple[int, tuple[int, ...]] | None:
        """As `place`, for one that asked before: a pod tried ten times is still one of its shape."""
        open_to = cluster.feasible(pod).nonzero()[0]
        if not len(open_to):
            return None
        look = self._looked(pod, cluster)
        node = int(open_to[look.cost.take(open_to).argmin()])
        if pod.num_gpu == 0:
            return node, ()
        if pod.num_gpu == 1 and pod.gpu_milli < WHOLE:
            return node, (self._device(look, node, pod.gpu_milli, cluster),)
        return node, cluster.idle_gpus(node, pod.num_gpu)

    def _learn(self, cluster: Cluster[P]) -> None:
        pods = self._recent.learnt()
        self._host: Host = scarcer(pods, self._hosts)
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

    def _meet_all(self, cluster: Cluster[P]) -> None:
        self._looks: dict[tuple[int, int, int], _Look] = {}
        self._rooms = Rooms(self._tables, max(self._gpus, default=1), self._grains) if self._tables else None
        self._room = np.zeros(cluster.n, dtype=np.int32)
        self._before = self._slope.copy()
        self._followed = len(cluster.log)
        for node in range(cluster.n):
            self._meet(node, cluster)

    def _looked(self, pod: P, cluster: Cluster[P]) -> _Look:
        self._follow(cluster)
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
            look.cost[changed] = self._cost(look, changed, free)
        look.seen = self._followed
        return look

    def _follow(self, cluster: Cluster[P]) -> None:
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

    def _meet(self, node: int, cluster: Cluster[P]) -> None:
        self._stamp[node] = self._followed
        if self._rooms is None:
            return
        left = tuple(cluster.gpu_free[node, : self._gpus[node]].tolist())
        number = self._rooms.number(self._class[node], left)
        self._room[node] = number
        grains = min(self._host.free(cluster).item(node) // self._grain.item(node), self._grains)
        self._before[node] = self._slope.item(node) + self._rooms.worth.item(self._rooms.rooms[number].row + grains)

    def _cost(self, look: _Look, nodes: NDArray[np.intp], free: NDArray[np.int64]) -> NDArray[np.int32]:
        """The worth each node loses by the pod, and how far back in the order it stands."""
        if self._rooms is None:
            return self._slope.take(nodes)
        rows = self._rooms.after(look.taking, self._room.take(nodes))
        grains = free - look.host
        grains //= self._grain.take(nodes)
        if self._host is not self._hosts[0]:  # of memory what is free may be more than was ever seen free
            np.minimum(grains, self._grains, out=grains)
        rest = self._rooms.worth.take(rows + grains[:, None])
        cost: NDArray[np.int32] = self._before.take(nodes)
        cost -= rest.max(axis=1) if rest.shape[1] > 1 else rest[:, 0]
        return cost

    def _device(self, look: _Look, node: int, milli: int, cluster: Cluster[P]) -> int:
        """Of the devices that keep the most, the tightest."""
        if self._rooms is None:
            return cluster.tightest_gpu(node, milli)
        grains = max(0, (self._host.free(cluster).item(node) - look.host) // self._grain.item(node))
        wanted = self._rooms.best_device(look.taking, self._room.item(node), grains)
        if wanted is None:  # fits by less than a grain
            return cluster.tightest_gpu(node, milli)
        left = cluster.gpu_free[node, : self._gpus[node]].tolist()
        return next(device for device, room in enumerate(left) if room // GRAIN_MILLI == wanted)
