"""Which processes of this machine are a container's: asked of its cgroup, which is quicker than any daemon."""
from collections.abc import Mapping
from pathlib import Path

from gpufairy.core.workload import WorkloadId

CGROUPS = Path("/sys/fs/cgroup")


def pids_of(first: Mapping[WorkloadId, int]) -> dict[WorkloadId, list[int]]:
    """By the PID of each one's first process. One that is gone meanwhile has none."""
    return {workload: pids_beside(pid) for workload, pid in first.items()}


def pids_beside(pid: int) -> list[int]:
    try:
        folder = cgroup_folder(Path(f"/proc/{pid}/cgroup").read_text())
        return [] if folder is None else [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except (OSError, ValueError):
        return []


def cgroup_folder(text: str, root: Path = CGROUPS) -> Path | None:
    """Of /proc/PID/cgroup. Where both versions are mounted, containers are in the first one's tree."""
    paths = {line.split(":", 2)[1]: line.split(":", 2)[2].strip() for line in text.splitlines() if line.count(":") >= 2}
    for controllers, path in paths.items():
        if "pids" in controllers.split(","):
            return root / controllers / path.lstrip("/")
    return root / paths[""].lstrip("/") if "" in paths else None
