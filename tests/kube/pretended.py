"""Nodes that are pretended, by kwok: any number, with GPUs, on which pods are said to run and nothing runs."""
import contextlib
import fcntl
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kube.cluster import Cluster
from kube.processes import run, runs, wait
from kube.start import programs_of

MARK = {"kwok.x-k8s.io/node": "fake"}
# Keeps away the pods of other tests that share the cluster, and those that are meant to be real.
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
TOLERATION = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
ROOM = {"cpu": "96", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "250"}
READY_S = 60.0
# Each renewed when a quarter of it is over. Without leases kwok says once a minute that a node is there, and after 50 s it is taken for lost.
LEASES = "--node-lease-duration-seconds=120"


@contextlib.contextmanager
def pretended_nodes(
    cluster: Cluster, count: int, *, gpus: int = 8, name: str = "", labels: dict[str, str] | None = None, taints: tuple[dict[str, str], ...] = (TAINT,), **room: str
) -> Iterator[list[str]]:
    """Their names, once all are ready; gone at the end. `room`: what they have beside the usual, or other than it. Without taints: in a cluster of one's own."""
    start_kwok(cluster)
    names = [f"{name or f'pretended-{secrets.token_hex(3)}'}-{number}" for number in range(count)]
    has = {**ROOM, **({"nvidia.com/gpu": str(gpus)} if gpus else {}), **room}
    with ThreadPoolExecutor(8) as several:
        try:
            list(several.map(lambda one: cluster.put("/api/v1/nodes", a_node(one, has, labels or {}, taints)), names))
            wait(cluster.folder, "kwok", lambda: ready(cluster) >= set(names), READY_S + count / 15)
            yield names
        finally:
            list(several.map(lambda one: cluster.answer("DELETE", f"/api/v1/nodes/{one}"), names))


def a_node(name: str, has: dict[str, str], labels: dict[str, str], taints: tuple[dict[str, str], ...]) -> dict[str, Any]:
    told = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok", **labels}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": told, "annotations": MARK},
        "spec": {"taints": [*taints]}, "status": {"capacity": has, "allocatable": has, "nodeInfo": {"kubeletVersion": "pretended"}},
    }  # fmt: skip


def ready(cluster: Cluster) -> set[str]:
    nodes = cluster.ask("GET", "/api/v1/nodes?labelSelector=type%3Dkwok&resourceVersion=0")["items"]
    return {one["metadata"]["name"] for one in nodes for seen in one["status"].get("conditions", ()) if (seen["type"], seen["status"]) == ("Ready", "True")}


def start_kwok(cluster: Cluster) -> None:
    """Unless it runs; it ends with the cluster."""
    program = programs_of("kwok")["kwok"]
    with (cluster.folder / "kwok.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runs(cluster.folder, "kwok"):
            words = "--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--cidr=10.205.0.1/16", "--node-ip=127.0.0.1", LEASES
            run(cluster.folder, program, f"--kubeconfig={cluster.kubeconfig}", *words)
            wait(cluster.folder, "kwok", lambda: runs(cluster.folder, "kwok"))
