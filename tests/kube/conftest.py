"""A real Kubernetes, for tests that need one."""
from kube.start import cluster

__all__ = ["cluster"]
