"""Whether a cluster can give out parts of GPUs by DRA: tried by one that is never made. Of scheduler and kubelets nothing is told."""
from typing import Any

from gpufairy.engines.dra_gpus import DRIVER, GATE_OFF
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused

API = "/apis/resource.k8s.io/v1"
NOT_FOUND, FORBIDDEN = 404, 403


async def dra_trouble(api: KubeApi, namespace: str) -> str:
    """In words, with what to do; empty: none. Raises KubeSilent."""
    try:
        await api.get(f"{API}/deviceclasses/{DRIVER}")
        made = await api.create(f"{API}/namespaces/{namespace}/resourceclaims", probe_claim(), dry_run=True)
    except KubeRefused as error:
        return trouble_of(error)
    exactly = made["spec"]["devices"]["requests"][0].get("exactly") or {}
    return "" if exactly.get("capacity") else GATE_OFF


def trouble_of(error: KubeRefused) -> str:
    if error.status == NOT_FOUND and "deviceclass" in error.what:
        return f"there is no device class {DRIVER}, or no DRA: it takes Kubernetes 1.34, and the Helm chart with agents.dra.enabled."
    if error.status == FORBIDDEN:
        return f"whether it can be done is not known: {error} {error.next_step}".strip()
    return f"{error} {error.next_step}".strip()


def probe_claim() -> dict[str, Any]:
    """A server whose gate is off drops what is asked of a capacity."""
    exactly = {"deviceClassName": DRIVER, "capacity": {"requests": {"memory": "1Mi"}}}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpufairy-probe"}, "spec": spec}
