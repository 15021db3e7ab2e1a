"""The nodes of a cluster as the planner sees them: what each may give out, and what others than our sessions have asked for there."""
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpufairy.core.node import Node, NodeState
from gpufairy.engines.kube_gpus import HAMI_REGISTER, KindsKnown, Told, counted_gpus, of_others, unknown_cut
from gpufairy.engines.kube_quantity import milli, whole
from gpufairy.engines.node_images import ImageSeen, images_told
from gpufairy.engines.pod_seen import moment
from gpufairy.engines.pod_settings import PodSettings

STAYING = ("DaemonSet", "Node")
CUDA = ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.runtime-version.full")


@dataclass(frozen=True, slots=True)
class NodeSeen:
    name: str
    labels: Mapping[str, str]
    cpus_milli: int
    memory_bytes: int
    resources: Mapping[str, int]  # extended ones
    ready: bool
    not_ready_since: datetime | None
    not_ready_why: str
    unschedulable: bool
    taints: tuple[str, ...]  # keys of those that keep pods away
    made_at: datetime | None = None
    hami: str = ""  # HAMi's own list of its GPUs
    images: tuple[ImageSeen, ...] = ()

    @property
    def told(self) -> Told:
        return Told(self.name, self.labels, self.resources, self.hami)


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod that is no session of ours holds."""

    node: str
    cpus_milli: int
    memory_bytes: int
    resources: Mapping[str, int]
    stays: bool = False  # as long as the node: its kubelet or a DaemonSet has put it there


def slim_node(told: Mapping[str, Any]) -> NodeSeen:
    about, spec, status = told.get("metadata") or {}, told.get("spec") or {}, told.get("status") or {}
    may_give = status.get("allocatable") or {}
    conditions: dict[str, Any] = {one.get("type"): one for one in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    is_ready = ready.get("status") == "True"
    return NodeSeen(
        name=str(about.get("name", "")), labels=about.get("labels") or {},
        cpus_milli=milli(may_give.get("cpu", 0)), memory_bytes=whole(may_give.get("memory", 0)),
        resources={name: whole(amount) for name, amount in may_give.items() if "/" in name},
        ready=is_ready, not_ready_since=None if is_ready else moment(ready.get("lastTransitionTime")),
        not_ready_why="" if is_ready else str(ready.get("message") or ready.get("reason") or "it has told nothing yet"),
        unschedulable=bool(spec.get("unschedulable")),
        taints=tuple(str(one.get("key")) for one in spec.get("taints") or () if one.get("effect") != "PreferNoSchedule"),
        made_at=moment(about.get("creationTimestamp")), hami=str((about.get("annotations") or {}).get(HAMI_REGISTER, "")),
        images=images_told(status),
    )  # fmt: skip


def slim_use(told: Mapping[str, Any]) -> PodUse | None:
    """None: it holds nothing, or is nowhere."""
    spec, status = told.get("spec") or {}, told.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return None
    asked = [((one.get("resources") or {}).get("requests") or {}) for one in spec.get("containers") or ()]
    names = {name for one in asked for name in one if "/" in name}
    return PodUse(
        str(spec["nodeName"]), sum(milli(one.get("cpu", 0)) for one in asked), sum(whole(one.get("memory", 0)) for one in asked),
        {name: sum(whole(one.get(name, 0)) for one in asked) for name in names},
        stays=any(one.get("kind") in STAYING for one in (told.get("metadata") or {}).get("ownerReferences") or ()),
    )  # fmt: skip


@dataclass(slots=True)
class NodeUse:
    """What others than sessions hold of one node."""

    cpus_milli: int = 0
    memory_bytes: int = 0
    staying_cpus_milli: int = 0
    staying_memory_bytes: int = 0
    resources: Counter[str] = field(default_factory=Counter)

    def add(self, use: PodUse, sign: int) -> None:
        if use.stays:
            self.staying_cpus_milli += sign * use.cpus_milli
            self.staying_memory_bytes += sign * use.memory_bytes
        else:
            self.cpus_milli += sign * use.cpus_milli
            self.memory_bytes += sign * use.memory_bytes
        for name, amount in use.resources.items():
            self.resources[name] += sign * amount


def node_of(seen: NodeSeen, used: NodeUse, settings: PodSettings, kinds: KindsKnown, seen_at: datetime | None) -> Node:
    state, why = state_of(seen, settings)
    if state is NodeState.READY:
        why = unknown_cut(seen.told, settings.gpus, kinds)
    return Node(
        seen.name, max(0, seen.cpus_milli - used.staying_cpus_milli), max(0, seen.memory_bytes - used.staying_memory_bytes),
        gpus=counted_gpus(seen.told, settings.gpus, kinds), state=state, state_why=why, pool=seen.labels.get(settings.pool_label),
        seen_at=seen_at if seen.ready else seen.not_ready_since,
        driver_cuda=next((seen.labels[name] for name in CUDA if name in seen.labels), None),
        came_at=seen.made_at, of_others=of_others(+used.resources, settings.gpus),
        others_cpus_milli=used.cpus_milli, others_memory_bytes=used.memory_bytes,
    )  # fmt: skip


def state_of(seen: NodeSeen, settings: PodSettings) -> tuple[NodeState, str]:
    if not seen.ready:
        return NodeState.SILENT, f"its kubelet does not answer: {seen.not_ready_why}"
    if seen.unschedulable:
        return NodeState.DRAINED, "cordoned in Kubernetes"
    borne = {one.get("key") for one in settings.tolerations}
    against = [key for key in seen.taints if key not in borne]
    if against:
        return NodeState.DRAINED, f"tainted in Kubernetes ({', '.join(against)}), which sessions do not tolerate"
    return NodeState.READY, ""


def selected(seen: NodeSeen, selector: str) -> bool:
    """By labels, as `a=b,c!=d,e`."""
    for part in filter(None, (one.strip() for one in selector.split(","))):
        name, sign, value = part.partition("=")
        unequal = name.endswith("!")
        has = seen.labels.get(name.rstrip("!=").strip())
        wanted = value.lstrip("=").strip()
        if (sign and (has == wanted) == unequal) or (not sign and has is None):
            return False
    return True
