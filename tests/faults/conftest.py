"""Faults and attacks: the server as it is shipped, with real parts that are broken on purpose."""
from daemons import docker_daemon
from kube.start import cluster, shared_cluster
from kube.tools import cluster_with_tools

__all__ = ["cluster", "cluster_with_tools", "docker_daemon", "shared_cluster"]
