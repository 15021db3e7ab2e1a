"""What the scheduler allotted to a claim, as the API server tells."""
import http.client
from collections.abc import Mapping
from typing import Any

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.engines.kube_quantity import whole
from gpufairy.node.dra.values import ALL_CORES, DRIVER, Asked, Grant, Offer, Part
from gpufairy.node.kube_call import KubeCalls, KubeNo

PATH = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"


def read_grant(calls: KubeCalls, asked: Asked, offers: Mapping[str, Offer]) -> Grant:
    """Raises EngineRefused for what stays so; EngineSilent for what may pass."""
    try:
        told = calls.ask("GET", PATH.format(asked.namespace, asked.name))
    except KubeNo as error:
        if error.status == http.client.NOT_FOUND:
            raise EngineRefused(f"{asked.words} is gone") from error
        raise EngineSilent(error.detail, error.next_step) from error
    try:
        return grant_told(told, asked, offers)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise EngineRefused(f"{asked.words} cannot be understood: {error}") from error


def grant_told(told: Mapping[str, Any], asked: Asked, offers: Mapping[str, Offer]) -> Grant:
    if told["metadata"]["uid"] != asked.uid:
        raise EngineRefused(f"{asked.words} was replaced by another of the same name")
    status = told.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    mine = [result for result in results if result["driver"] == DRIVER]
    if not mine:
        raise EngineRefused(f"{asked.words} has no device of {DRIVER}")
    if any(result.get("adminAccess") for result in mine):
        raise EngineRefused(f"{asked.words} asks for admin access, and {DRIVER} gives shares alone", "Ask without adminAccess.")
    pods = [str(one["uid"]) for one in status.get("reservedFor") or () if one.get("resource") == "pods"]
    return Grant(asked, tuple(part_of(result, offers) for result in mine), tuple(pods))


def part_of(result: Mapping[str, Any], offers: Mapping[str, Offer]) -> Part:
    """A device that is not shared, because it is an instance or the cluster knows no shares, is taken whole."""
    device, consumed = str(result["device"]), result.get("consumedCapacity")
    request = str(result["request"]).partition("/")[0]
    if consumed is None:
        offer = offers.get(device)
        return Part(request, str(result["pool"]), device, "", 0 if offer is None else offer.memory_bytes, ALL_CORES)
    memory, cores = whole(consumed["memory"]), whole(consumed["cores"])
    return Part(request, str(result["pool"]), device, str(result.get("shareID") or ""), memory, cores)
