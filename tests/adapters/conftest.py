"""Real container engines, for whichever adapter wants one."""
from daemons import docker_daemon, docker_tools, podman_daemon

__all__ = ["docker_daemon", "docker_tools", "podman_daemon"]
