"""GPUs that nodes offer by DRA, through gpufairy's own agents: which each is, and what pods that are no sessions hold of it. Pure."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.core.mig import MigInstance, MigTable, table_of
from gpufairy.core.node import Gpu, Sharing
from gpufairy.core.session import GpuSeat
from gpufairy.core.sharing import is_fraction
from gpufairy.engines.kube_quantity import whole

DRIVER = "gpu.fairy"
MIB = 2**20
GATE_OFF = (
    "its cluster knows no shares of devices: switch on the gate DRAConsumableCapacity (on by itself from Kubernetes 1.36) in API server, "
    "scheduler, controller manager and kubelets"
)


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    """As an agent offers it."""

    name: str
    uuid: str
    index: int
    kind: str
    memory_bytes: int
    sharing: Sharing
    in_shares: bool  # several claims may have parts of it
    parent: str = ""  # of a MIG instance, with the next four
    parent_memory_bytes: int = 0
    profile: str = ""
    start: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class SliceSeen:
    node: str
    devices: tuple[DeviceSeen, ...]


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """Of somebody else, with what it was allotted."""

    name: str  # namespace/name
    devices: tuple[tuple[str, str], ...]  # node and device


def slim_slice(told: Mapping[str, Any]) -> SliceSeen | None:
    """None: not ours, or of no one node."""
    spec = told.get("spec") or {}
    if spec.get("driver") != DRIVER or not spec.get("nodeName"):
        return None
    found = (device_of(one) for one in spec.get("devices") or ())
    return SliceSeen(str(spec["nodeName"]), tuple(one for one in found if one is not None))


def device_of(told: Mapping[str, Any]) -> DeviceSeen | None:
    """None: it says too little of itself to be given to anybody."""
    attributes = told.get("attributes") or {}
    text = {name: str(value["string"]) for name, value in attributes.items() if "string" in value}
    number = {name: int(value["int"]) for name, value in attributes.items() if "int" in value}
    memory = ((told.get("capacity") or {}).get("memory") or {}).get("value")
    if not text.get("uuid") or memory is None or text.get("sharing") not in {*Sharing}:
        return None
    return DeviceSeen(
        str(told.get("name")), text["uuid"], number.get("index", 0), text.get("kind", "GPU"), whole(memory), Sharing(text["sharing"]),
        bool(told.get("allowMultipleAllocations")), text.get("parent", ""), number.get("parentMemoryMiB", 0) * MIB,
        text.get("profile", ""), number.get("start", 0), number.get("size", 0),
    )  # fmt: skip


def slim_claim(told: Mapping[str, Any]) -> ClaimSeen | None:
    """None: it has nothing of ours."""
    about, allotted = told.get("metadata") or {}, ((told.get("status") or {}).get("allocation") or {}).get("devices") or {}
    mine = [one for one in allotted.get("results") or () if one.get("driver") == DRIVER]
    if not mine:
        return None
    # An agent's pool has its node's name.
    return ClaimSeen(f"{about.get('namespace')}/{about.get('name')}", tuple((str(one["pool"]), str(one["device"])) for one in mine))


def offered_gpus(devices: Iterable[DeviceSeen], held: Mapping[str, Sequence[str]], tables: Mapping[str, MigTable]) -> tuple[Gpu, ...]:
    """`held`: by device, the claims of others that have some of it. By index."""
    gpus, cut = [], dict[str, list[DeviceSeen]]()
    for device in devices:
        if device.parent:
            cut.setdefault(device.parent, []).append(device)
        else:
            gpus.append(whole_gpu(device, held.get(device.name, ())))
    gpus += [cut_gpu(uuid, instances, held, tables) for uuid, instances in cut.items()]
    return tuple(sorted(gpus, key=lambda gpu: (gpu.index, gpu.uuid)))


def whole_gpu(device: DeviceSeen, held: Sequence[str]) -> Gpu:
    if held:
        theirs = f"the claim {held[0]}, which is no session's, has a part of it"
        return Gpu(device.index, device.uuid, device.kind, device.memory_bytes, sharing=device.sharing, closed=theirs, mps_stays=theirs)
    if not device.in_shares:  # whole alone: the planner asks `closed` of what is shared by MPS
        return Gpu(device.index, device.uuid, device.kind, device.memory_bytes, sharing=Sharing.MPS, closed=GATE_OFF)
    return Gpu(device.index, device.uuid, device.kind, device.memory_bytes, sharing=device.sharing)


def cut_gpu(uuid: str, devices: Sequence[DeviceSeen], held: Mapping[str, Sequence[str]], tables: Mapping[str, MigTable]) -> Gpu:
    """What others have of it is not among its instances."""
    first = devices[0]
    instances = tuple(MigInstance(one.profile, one.start, one.size, one.uuid) for one in sorted(devices, key=lambda one: one.start))
    free = tuple(one for one in instances if not any(held.get(device.name) for device in devices if device.uuid == one.uuid))
    table = tables.get(first.kind) or table_of(instances)
    return Gpu(first.index, uuid, first.kind, first.parent_memory_bytes, mig=table, instances=free, sharing=Sharing.MIG)


def check_sharing(gpu: GpuSeat, node: str, devices: Iterable[DeviceSeen]) -> None:
    """What an admin's rule says of a GPU its node's agent must do. Raises EngineRefused."""
    device = next((one for one in devices if one.uuid == gpu.uuid), None)
    if device is None or not is_fraction(gpu) or device.sharing is gpu.sharing:
        return
    raise EngineRefused(
        f"GPU {gpu.uuid} is to be shared by {gpu.sharing}, and the agent of {node} shares it by {device.sharing}",
        f"Start that agent with --dra-sharing {gpu.sharing} (Helm value agents.dra.sharing), or set the rule back by `fairy share`.",
    )
