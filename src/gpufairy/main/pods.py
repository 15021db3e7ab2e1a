"""Who is asked for the names of pods on this host, by the settings and by what is found here."""
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpufairy.core.errors import BadInput, EngineSilent
from gpufairy.node.kube_access import KubeAccess, by_kubeconfig, in_cluster, is_in_cluster
from gpufairy.node.kube_pods import listed_pods
from gpufairy.node.pod_resources import Holders, listed_holders
from gpufairy.node.pods import KnownPods, Pods, known_pods
from gpufairy.node.whose import PodFacts

KUBELET = "/var/lib/kubelet"
AUTO, OFF = "auto", "off"


@dataclass(frozen=True, slots=True)
class KubernetesWatch:
    where: str = AUTO  # auto, off, or the path of a kubeconfig
    node: str | None = None
    kubelet: str = KUBELET  # its root folder
    session_namespaces: tuple[str, ...] = ()


def make_pods(watch: KubernetesWatch, env: Mapping[str, str]) -> Pods | None:
    """None: not wanted. Whether there is Kubernetes here at all need not be known: nobody is asked before a pod is met."""
    if watch.where == OFF:
        return None
    access, node = find_access(watch.where, env), env.get("NODE_NAME") or watch.node or socket.gethostname().strip().lower()
    return Pods(None if access is None else partial(pods_of, access, node), partial(holders_of, Path(watch.kubelet)))


def no_pods(pod_uid: str, container_id: str | None, device: str) -> PodFacts | None:
    return None


def find_access(where: str, env: Mapping[str, str]) -> Callable[[], KubeAccess] | None:
    """None: there is no way to the API server."""
    if where != AUTO:
        if os.sep not in where:
            raise BadInput(f"kubernetes: found {where[:40]!r}", "Write auto, off or the path of a kubeconfig.")
        by_kubeconfig(Path(where))  # what is wrong with it is said now
        return partial(by_kubeconfig, Path(where))
    named = [Path(path) for path in env.get("KUBECONFIG", "").split(os.pathsep) if path]
    if named:
        return partial(by_kubeconfig, next((path for path in named if path.exists()), named[0]))
    return partial(in_cluster, env) if is_in_cluster(env) else None


def pods_of(access: Callable[[], KubeAccess], node: str) -> KnownPods:
    listed = listed_pods(access(), node)
    if not listed:  # asked only where a process of one was seen
        found = f"The cluster has no pods on a node {node!r}, and there are some here."
        raise EngineSilent(found, "Set NODE_NAME to what the cluster calls this host.")
    return known_pods(listed)


def holders_of(kubelet: Path) -> Holders:
    path = kubelet / "pod-resources" / "kubelet.sock"
    if not path.exists():
        raise EngineSilent(
            f"Processes of pods use GPUs here, and nobody tells the pods' names: {path} is not there.",
            "Name a kubeconfig by --kubernetes or KUBECONFIG, or run in the cluster.",
        )
    return listed_holders(path)
