"""ResourceSlices: how Kubernetes is told what a node offers. Pure.

One slice for each GPU, all of one pool: the scheduler of 1.34 passes over all devices of a slice that come after a full one
(kubernetes/kubernetes#133705).
"""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpufairy.engines.kube_quantity import quantity
from gpufairy.node.dra.offers import groups
from gpufairy.node.dra.values import ALL_CORES, DRIVER, Offer

API = "resource.k8s.io/v1"
LONGEST_NODE = 200  # letters of its name in a slice's, which has at most 253


@dataclass(frozen=True, slots=True)
class OfNode:
    """Whose slices they are."""

    name: str
    uid: str  # Kubernetes removes the slices with it
    sharing: str  # mps or time: how parts of a GPU are held apart here
    driver_version: str = ""
    knows_shares: bool = True  # the cluster does; else each GPU is one claim's


def slice_names(node: str, offers: Sequence[Offer]) -> dict[str, list[Offer]]:
    return {f"{node[:LONGEST_NODE]}-{gpu.lower()}": of_gpu for gpu, of_gpu in groups(offers).items()}


def slice_bodies(node: OfNode, offers: Sequence[Offer], generation: int) -> dict[str, dict[str, Any]]:
    """By name."""
    named = slice_names(node.name, offers)
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
    pool = {"name": node.name, "generation": generation, "resourceSliceCount": len(named)}
    return {
        name: {
            "apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"driver": DRIVER, "nodeName": node.name, "pool": pool, "devices": [device_body(offer, node) for offer in of_gpu]},
        }
        for name, of_gpu in named.items()
    }  # fmt: skip


def device_body(offer: Offer, node: OfNode) -> dict[str, Any]:
    texts = {"uuid": offer.uuid, "kind": offer.kind, "sharing": node.sharing, "driver": node.driver_version}
    numbers = {"index": offer.index}
    if offer.is_instance:
        texts |= {"parent": offer.parent, "profile": offer.profile, "sharing": "mig"}
        numbers |= {"start": offer.start, "size": offer.size, "parentMemoryMiB": offer.parent_memory_mib}
    attributes: dict[str, Any] = {name: {"string": text} for name, text in texts.items() if text}
    attributes |= {name: {"int": number} for name, number in numbers.items()}
    memory = f"{offer.memory_mib}Mi"
    if offer.is_instance or not node.knows_shares:
        return {"name": offer.name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}
    capacity = {"memory": divisible(memory, "1Mi"), "cores": divisible(str(ALL_CORES), "1")}
    return {"name": offer.name, "allowMultipleAllocations": True, "attributes": attributes, "capacity": capacity}


def divisible(whole: str, step: str) -> dict[str, Any]:
    """Who says nothing of it gets all of it: a claim for a GPU is one for a whole GPU."""
    return {"value": whole, "requestPolicy": {"default": whole, "validRange": {"min": step, "max": whole, "step": step}}}


def agree(seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all slices are there as they shall be, of one generation. What the server adds by itself is no difference."""
    generations = {one["spec"]["pool"]["generation"] for one in seen.values()}
    if seen.keys() != wanted.keys() or len(generations) > 1:
        return False
    return all(covers(seen[name]["spec"], without_generation(wanted[name]["spec"])) for name in wanted)


def without_generation(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "pool": {name: value for name, value in spec["pool"].items() if name != "generation"}}


def covers(seen: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(seen, dict) and all(name in seen and covers(seen[name], value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(seen, list) and len(seen) == len(wanted) and all(map(covers, seen, wanted))
    return bool(seen == wanted) or (isinstance(seen, str) and isinstance(wanted, str) and same_amount(seen, wanted))


def same_amount(seen: str, wanted: str) -> bool:
    """The server writes 40960Mi as 40Gi."""
    amount = quantity(wanted)
    return amount is not None and amount == quantity(seen)


def next_generation(seen: Mapping[str, Any]) -> int:
    return max((int(one["spec"]["pool"]["generation"]) for one in seen.values()), default=0) + 1


def lacks_shares(answered: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """The server dropped what says that a device may be shared: its gate DRAConsumableCapacity is off."""
    asked = [one.get("allowMultipleAllocations") for one in wanted["spec"]["devices"]]
    return any(asked) and not any(one.get("allowMultipleAllocations") for one in answered["spec"].get("devices") or ())
