"""Definitions of objects that are not Kubernetes' own, as their makers publish them."""
from pathlib import Path

import yaml

from kube.cluster import Cluster
from kube.processes import wait

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_S = 30.0


def define(cluster: Cluster, folder: Path, chosen: str = "*") -> None:
    """Those in the folder that are called so; they stay as long as the cluster."""
    for path in sorted(folder.glob(f"{chosen}.yaml")):
        told = yaml.safe_load(path.read_text())
        cluster.put(CRDS, told)
        wait(cluster.folder, "kube-apiserver", lambda name=told["metadata"]["name"]: is_established(cluster, name), ESTABLISHED_S)


def is_established(cluster: Cluster, name: str) -> bool:
    seen = cluster.ask("GET", f"{CRDS}/{name}").get("status", {}).get("conditions")
    return any((one["type"], one["status"]) == ("Established", "True") for one in seen or ())
