"""Real container engines, for whichever adapter wants one."""
from daemons import docker_daemon, docker_tools, podman_daemon
from kube.start import cluster, lone_cluster, shared_cluster
from kube.tools import cluster_with_tools

__all__ = ["cluster", "cluster_with_tools", "docker_daemon", "docker_tools", "lone_cluster", "podman_daemon", "shared_cluster"]
