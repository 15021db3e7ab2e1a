"""Real container engines, for what tells of containers."""
from daemons import docker_daemon, podman_daemon

__all__ = ["docker_daemon", "podman_daemon"]
