"""Which processes of this machine are a container's: asked of its cgroup, which is quicker than any daemon."""
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gpufairy.core.workload import WorkloadId
from gpufairy.engines.pidfd import kill_if

CGROUPS = Path("/sys/fs/cgroup")
CONTAINER_ID = re.compile(r"[0-9a-f]{64}")  # anything shorter could be part of the path of others


def pids_of(first: Mapping[WorkloadId, int]) -> dict[WorkloadId, list[int]]:
    """By the PID of each one's first process. One that is gone meanwhile has none."""
    return {workload: pids_beside(pid) for workload, pid in first.items()}


def pids_beside(pid: int) -> list[int]:
    try:
        folder = cgroup_folder(Path(f"/proc/{pid}/cgroup").read_text())
        return [] if folder is None else [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except (OSError, ValueError):
        return []


def kill_processes(container_id: str) -> bool:
    """Of a container that its daemon has forgotten, so that nobody knows its first process. Whether there were any."""
    if not CONTAINER_ID.fullmatch(container_id):
        return False
    found = [int(name) for name in os.listdir("/proc") if name.isdecimal() and is_inside(int(name), container_id)]
    for pid in found:
        kill_if(pid, partial(is_inside, pid, container_id))
    return bool(found)


def is_inside(pid: int, container_id: str) -> bool:
    """Its id is in the path of its cgroup, whichever way the daemon makes them."""
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def cgroup_folder(text: str, root: Path = CGROUPS) -> Path | None:
    """Of /proc/PID/cgroup. Where both versions are mounted, containers are in the first one's tree."""
    paths = {line.split(":", 2)[1]: line.split(":", 2)[2].strip() for line in text.splitlines() if line.count(":") >= 2}
    for controllers, path in paths.items():
        if "pids" in controllers.split(","):
            return root / controllers / path.lstrip("/")
    return root / paths[""].lstrip("/") if "" in paths else None
