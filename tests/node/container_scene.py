"""Containers that somebody starts by hand on a real daemon."""
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from daemons import RealDaemon
from images import BUSYBOX_IMAGE
from waits import until


@contextmanager
def by_hand(daemon: RealDaemon, name: str, labels: dict[str, str] | None = None, *command: str) -> Iterator[str]:
    """Its id. It runs, and has a cgroup of its own."""
    limits = [{"Name": name, "Soft": 1024, "Hard": 1024} for name in ("nofile", "nproc")]  # Podman's own may be more than this machine's
    body: dict[str, Any] = {"Image": BUSYBOX_IMAGE, "Cmd": command or ["sleep", "1000"], "Labels": labels or {}, "HostConfig": {"NetworkMode": "none", "Ulimits": limits}}
    made = daemon.ask("POST", f"/containers/create?name={name}", body)["Id"]
    try:
        daemon.ask("POST", f"/containers/{made}/start")
        until(lambda: daemon.container(made)["State"]["Pid"], f"{name} to run")
        yield made
    finally:
        daemon.ask("DELETE", f"/containers/{made}?force=1&v=1")


def pid_of(daemon: RealDaemon, container_id: str) -> int:
    pid: int = daemon.container(container_id)["State"]["Pid"]
    return pid
