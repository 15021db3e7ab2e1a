"""Karpenter, in its flavour for kwok: nodes come when pods wait, and go when they are empty. In a cluster of one's own, for one test."""
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from bench.ports import free_port

from kube.cluster import Cluster
from kube.definitions import define
from kube.pretended import start_kwok
from kube.processes import run, runs, stop, wait
from kube.start import programs_of

CLASSES, POOLS = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", "/apis/karpenter.sh/v1/nodepools"
TYPES = {"g5.xlarge": (4, 16, 1, 1.006), "g5.12xlarge": (48, 192, 4, 5.672)}  # CPUs, GiB, GPUs, dollars an hour
ZONE = "test-zone-a"
GPU_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
ROLE = {"role": "train-gpu"}


@contextlib.contextmanager
def karpenter(cluster: Cluster, types: dict[str, tuple[int, int, int, float]] | None = None) -> Iterator[None]:
    """Runs, knows these types of machines, and has no pool yet."""
    programs = programs_of("karpenter-kwok", "karpenter-crds")
    start_kwok(cluster)
    define(cluster, programs["karpenter-crds"])
    told = cluster.folder / "types.json"
    told.write_text(json.dumps([machine(name, *has) for name, has in (types or TYPES).items()]))
    env = {"SYSTEM_NAMESPACE": "kube-system", "KUBERNETES_MIN_VERSION": "1.19.0-0", "KARPENTER_SERVICE": "karpenter", "KUBECONFIG": str(cluster.kubeconfig)}
    metrics, health = free_port(), free_port()
    ports = "-disable-leader-election", "-metrics-port", str(metrics), "-health-probe-port", str(health)
    run(cluster.folder, programs["karpenter-kwok"], *ports, "-instance-types-file-path", str(told), env=env)
    try:
        wait(cluster.folder, "karpenter-kwok", lambda: runs(cluster.folder, "karpenter-kwok"))
        yield
    finally:
        stop(cluster.folder, "karpenter-kwok")


@contextlib.contextmanager
def node_pool(cluster: Cluster, name: str = "train-gpu", *, most_gpus: int = 4, labels: dict[str, str] | None = None) -> Iterator[str]:
    """Empty at rest; its nodes carry `role: train-gpu` and the taint of GPU nodes."""
    cluster.put(CLASSES, {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
    cluster.ask("POST", POOLS, a_pool(name, most_gpus, labels or ROLE))
    try:
        yield name
    finally:
        cluster.ask("DELETE", f"{POOLS}/{name}")


def a_pool(name: str, most_gpus: int, labels: dict[str, str]) -> dict[str, Any]:
    spec = {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "taints": [GPU_TAINT],
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
    }  # fmt: skip
    template = {"metadata": {"labels": labels}, "spec": spec}
    # Long enough for a busy machine: a node that counts as empty before its first pod is bound goes, and takes the pod with it.
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "60s"}
    return {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"limits": {"nvidia.com/gpu": str(most_gpus)}, "disruption": disruption, "template": template},
    }  # fmt: skip


def machine(name: str, cpus: int, memory_gib: int, gpus: int, dollars_an_hour: float) -> dict[str, Any]:
    has = {"cpu": str(cpus), "memory": f"{memory_gib}Gi", "ephemeral-storage": "100Gi", "pods": "58", "nvidia.com/gpu": str(gpus)}
    at = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]}]
    offered = [{"Price": dollars_an_hour, "Available": True, "Requirements": at}]
    return {"name": name, "architecture": "amd64", "operatingSystems": ["linux"], "resources": has, "offerings": offered}
