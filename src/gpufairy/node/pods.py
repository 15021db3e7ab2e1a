"""Names and labels of the pods on this node: from the API server, and where that tells nothing, by the GPU that the kubelet gave to one.

Both are asked only while processes of pods are seen on GPUs, and aside: a silent one stops nobody.
"""
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpufairy.node.asked import Asked
from gpufairy.node.kube_pods import KubePod
from gpufairy.node.pod_resources import Holder, Holders
from gpufairy.node.whose import PodFacts

WAIT_S = 0.25  # for an answer about a pod that is met for the first time: else its first sample would name nobody
UNKNOWN_AGAIN_S = 2.0  # until one that is not told of is asked about again; twice as long each time. The kubelet tells of containers late
GOOD_S = 60.0  # names of pods never change, labels may
SILENT_AGAIN_S = 10.0  # after an answer that was none
WANTED_S = 90.0  # so long after the last question somebody is taken to be interested
KEPT_S = 3600.0  # of one that fell silent
MET_S = 15.0  # so long after its last look a container counts among those on a GPU
MOST_UNKNOWN = 4096  # remembered

Container = tuple[str, str | None]  # the uid of its pod, and its own id


@dataclass(slots=True)
class _Unknown:
    tries: int = 0
    again_s: float = float("-inf")


@dataclass(frozen=True, slots=True)
class _Seen:
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class KnownPods:
    """By the uid under which each runs here. A static pod is shown under a note that whoever may make pods could write, so it counts for
    those containers alone that the kubelet itself has told of."""

    by_uid: Mapping[str, KubePod] = field(default_factory=dict)
    static: Mapping[str, tuple[KubePod, ...]] = field(default_factory=dict)

    def find(self, pod_uid: str, container_id: str | None) -> KubePod | None:
        own = self.by_uid.get(pod_uid)
        return own or next((pod for pod in self.static.get(pod_uid, ()) if container_id in pod.containers), None)


def known_pods(pods: Iterable[KubePod]) -> KnownPods:
    listed, static = list(pods), dict[str, tuple[KubePod, ...]]()
    for pod in listed:
        if pod.runs_as:
            static[pod.runs_as] = (*static.get(pod.runs_as, ()), pod)
    return KnownPods({pod.uid: pod for pod in listed if not pod.runs_as}, static)


class Pods:
    """What was told last. `api`: all pods of this node, None if we have no way to it; `kubelet`: who holds which GPU."""

    def __init__(
        self,
        api: Callable[[], KnownPods] | None,
        kubelet: Callable[[], Holders],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wait_s: float = WAIT_S,
    ) -> None:
        self._monotonic, self._wait_s = monotonic, wait_s
        self._api = None if api is None else Asked(api, "pods of the API server", monotonic)
        self._kubelet = Asked(kubelet, "pods of the kubelet", monotonic)
        self._wanted_s = float("-inf")
        self._unknown: dict[Container, _Unknown] = {}
        self._on_device: dict[str, dict[Container, _Seen]] = {}  # by its UUID

    def facts(self, pod_uid: str, container_id: str | None, device: str = "") -> PodFacts | None:
        """`device`: the UUID of the GPU or MIG instance that a process of it is on. None: nobody tells of the pod."""
        self._wanted_s = now_s = self._monotonic()
        container = pod_uid, container_id
        met_s = self._meet(container, device, now_s)
        pod = self._listed(container, now_s)
        if pod is not None:
            return PodFacts(pod.name, pod.namespace, pod.containers.get(container_id or "", ""), labels=pod.labels)
        return self._by_device(device, met_s, now_s)

    def _listed(self, container: Container, now_s: float) -> KubePod | None:
        if self._api is None:
            return None
        self._api.listen()
        pod = self._find(*container)
        if _is_whole(pod, container[1]):
            self._unknown.pop(container, None)
        elif self._is_due(container, now_s, self._api):
            self._api.ask(self._wait_s)
            pod = self._find(*container)
        return pod

    def _by_device(self, device: str, met_s: float, now_s: float) -> PodFacts | None:
        """By the one container that the kubelet gave it to, if that is the only one seen on it: a pod may use a GPU that it was not given.
        Nobody at first sight, since the others on it have not been looked at yet."""
        kubelet = self._kubelet
        if not device:
            return None
        kubelet.listen()
        # What was told before this container was met may be of the one that had the GPU before.
        again_s = SILENT_AGAIN_S if kubelet.trouble else UNKNOWN_AGAIN_S if kubelet.as_of_s < met_s else GOOD_S
        if now_s - kubelet.asked_s >= again_s:
            kubelet.ask(self._wait_s)
        told = {} if kubelet.answer is None or kubelet.as_of_s < met_s or met_s == now_s else kubelet.answer
        holders = tuple(told.get(device, ()))
        return _of_holder(holders[0]) if len(holders) == len(self._on_device[device]) == 1 else None

    def _meet(self, container: Container, device: str, now_s: float) -> float:
        """When it was first seen there."""
        if not device:
            return now_s
        seen = self._on_device[device] = _fresh(self._on_device.get(device, {}), now_s)
        met_s = seen[container].first_s if container in seen else now_s
        seen[container] = _Seen(met_s, now_s)
        return met_s

    def refresh(self) -> None:
        """Once a beat: asks again where that is due, and forgets what is too old. Never waits."""
        now_s = self._monotonic()
        self._on_device = {device: fresh for device, seen in self._on_device.items() if (fresh := _fresh(seen, now_s))}
        self._kubelet.forget_older(KEPT_S)
        if self._api is None:
            return
        self._api.forget_older(KEPT_S)
        again_s = SILENT_AGAIN_S if self._api.trouble else GOOD_S
        if now_s - self._wanted_s < WANTED_S and now_s - self._api.asked_s >= again_s:
            self._api.ask(0.0)

    @property
    def known(self) -> bool | None:
        """Whether whoever should tell of pods does. None: nobody has to, as on a host without Kubernetes."""
        if self._api is None and self._monotonic() - self._wanted_s >= WANTED_S:
            return None
        return not self.trouble

    @property
    def trouble(self) -> tuple[str, ...]:
        """Why names may be missing or old, in words."""
        words = (self._api or self._kubelet).trouble
        return (words,) if words else ()

    def _find(self, pod_uid: str, container_id: str | None) -> KubePod | None:
        told = None if self._api is None else self._api.answer
        return None if told is None else told.find(pod_uid, container_id)

    def _is_due(self, container: Container, now_s: float, api: Asked[KnownPods]) -> bool:
        unknown = self._unknown.setdefault(container, _Unknown())
        if len(self._unknown) > MOST_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]
        if now_s < unknown.again_s or now_s - api.asked_s < UNKNOWN_AGAIN_S:
            return False
        unknown.again_s = now_s + min(GOOD_S, UNKNOWN_AGAIN_S * 2**unknown.tries)
        unknown.tries += 1
        return True


def _is_whole(pod: KubePod | None, container_id: str | None) -> bool:
    return pod is not None and (container_id is None or container_id in pod.containers)


def _of_holder(holder: Holder) -> PodFacts:
    return PodFacts(holder.pod, holder.namespace, holder.container)


def _fresh(seen: Mapping[Container, _Seen], now_s: float) -> dict[Container, _Seen]:
    return {container: one for container, one in seen.items() if now_s - one.last_s < MET_S}
