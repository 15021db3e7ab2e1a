"""A real Kubernetes, for tests that need one."""
from kube.start import cluster, lone_cluster, shared_cluster
from kube.tools import cluster_with_tools

__all__ = ["cluster", "cluster_with_tools", "lone_cluster", "shared_cluster"]
