"""How the GPUs of a seat come into a pod: by extended resources of a device plugin, or by a claim that our own DRA driver answers.

With a device plugin the planner chooses the node and the plugin the GPU; with DRA the planner chooses the GPU too.
"""
from typing import Any

from gpufairy.core.counted import COUNTED
from gpufairy.core.counted import is_counted as of_a_place
from gpufairy.core.errors import EngineRefused
from gpufairy.core.session import GpuSeat, Session
from gpufairy.core.share import PARTS
from gpufairy.engines.pod_settings import FractionsBy, GpuNames
from gpufairy.engines.process_env import visible_devices

SINGLE = "single"  # where `nvidia.com/gpu` itself is a MIG instance: all of the node's are cut alike
DRA_API = "resource.k8s.io/v1"
GPU_REQUEST = "gpu"
MIB = 2**20


def counted_uuid(node: str, what: str, index: int) -> str:
    return f"{COUNTED}{node}/{what}/{index}"


def is_counted(gpu: GpuSeat) -> bool:
    """Given out by a device plugin: which of the node's it is, is the plugin's choice."""
    return of_a_place(gpu.uuid)


def real_gpus(session: Session) -> list[GpuSeat]:
    return [] if session.seat is None else [gpu for gpu in session.seat.gpus if not gpu.simulated]


def gpu_resources(session: Session, names: GpuNames) -> dict[str, str]:
    """Of the container. Raises EngineRefused: parts of GPUs that nobody here gives out."""
    counted = [gpu for gpu in real_gpus(session) if is_counted(gpu)]
    amounts: dict[str, int] = {}
    for gpu in counted:
        for name, amount in resources_of(gpu, names).items():
            amounts[name] = amounts.get(name, 0) + amount
    return {name: str(amount) for name, amount in amounts.items()}


def resources_of(gpu: GpuSeat, names: GpuNames) -> dict[str, int]:
    if gpu.profile and f"/{SINGLE}/" in gpu.uuid:
        return {names.whole: 1}
    if gpu.profile:
        return {names.mig.format(profile=gpu.profile.replace("+", ".")): 1}
    if gpu.parts == PARTS:
        return {names.whole: 1}
    if names.fractions is FractionsBy.HAMI:
        return {names.whole: 1, names.memory: -(-gpu.memory_bytes // MIB), names.cores: -(-100 * gpu.parts // PARTS)}
    if names.fractions is FractionsBy.REPLICAS:
        return {names.replica: -(-gpu.parts * names.replicas // PARTS)}
    raise EngineRefused(
        f"node {gpu.uuid.removeprefix(COUNTED).partition('/')[0]} gives out whole GPUs alone: its device plugin knows no parts of them",
        "Install gpufairy's agents with DRA (Helm value agents.dra), or name HAMi's or the MPS replicas' resources in [kubernetes].",
    )


def gpu_claim(session: Session, names: GpuNames, claim: str) -> dict[str, Any]:
    """Of the pod's spec, where GPUs come by DRA."""
    by_dra = [gpu for gpu in real_gpus(session) if not is_counted(gpu)]
    return {"resourceClaims": [{"name": GPU_REQUEST, "resourceClaimName": claim}]} if by_dra else {}


def claim_body(session: Session, names: GpuNames, name: str, labels: dict[str, str]) -> dict[str, Any] | None:
    """The claim itself, with a request for each GPU, pinned to the one that the planner chose. None: none is needed."""
    by_dra = [gpu for gpu in real_gpus(session) if not is_counted(gpu)]
    if not by_dra:
        return None
    requests = [{"name": f"{GPU_REQUEST}-{place}", "exactly": exactly(gpu, names)} for place, gpu in enumerate(by_dra)]
    about = {"name": name, "labels": labels}
    return {"apiVersion": DRA_API, "kind": "ResourceClaim", "metadata": about, "spec": {"devices": {"requests": requests}}}


def exactly(gpu: GpuSeat, names: GpuNames) -> dict[str, Any]:
    """Memory is asked for in whole MiB: what the driver rounds to is never more than the planner set aside."""
    pinned = f"device.attributes['{names.driver}'].uuid == '{gpu.device}'"
    if gpu.profile:  # a MIG instance is one's own as a whole
        return {"deviceClassName": names.driver, "selectors": [{"cel": {"expression": pinned}}]}
    asked = {"memory": f"{gpu.memory_bytes // MIB}Mi", "cores": str(max(1, gpu.parts * 100 // PARTS))}
    return {"deviceClassName": names.driver, "selectors": [{"cel": {"expression": pinned}}], "capacity": {"requests": asked}}


def gpu_environment(session: Session, names: GpuNames) -> dict[str, str]:
    """NVIDIA's own hook heeds NVIDIA_VISIBLE_DEVICES, also of an image: void keeps it out where no device plugin sets it."""
    gpus = () if session.seat is None else session.seat.gpus
    if any(is_counted(gpu) for gpu in real_gpus(session)):
        return {}  # the plugin sets both, for it alone knows which GPUs they are
    simulated = {"FAIRY_SIMULATED": "1"} if any(gpu.simulated for gpu in gpus) else {}
    return {**visible_devices(gpus), "NVIDIA_VISIBLE_DEVICES": "void", **simulated}
