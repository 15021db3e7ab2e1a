"""The same container in the words of Podman's own API, the only one by which it takes CDI devices: the other leaves them out in silence."""
from typing import Any

from gpufairy.engines.docker_spec import CPU_PERIOD_US, Mount

BIND = ("rbind", "rprivate")


def libpod_spec(spec: dict[str, Any], name: str, mounts: tuple[Mount, ...], cdi: tuple[str, ...]) -> dict[str, Any]:
    host = spec["HostConfig"]
    network = host["NetworkMode"]
    return {
        "name": name,
        "image": spec["Image"],
        "entrypoint": spec["Entrypoint"],
        "command": [],
        "user": spec["User"],
        "work_dir": spec["WorkingDir"],
        "hostname": spec["Hostname"],
        "env": dict(variable.split("=", 1) for variable in spec["Env"]),
        "labels": spec["Labels"],
        "stop_signal": 15,
        "healthconfig": {"Test": ["NONE"]},
        "mounts": [
            {"type": "bind", "source": str(mount.source), "destination": mount.target, "options": [*BIND, "rw" if mount.writable else "ro"]}
            for mount in mounts
        ],
        "netns": {"nsmode": "none"} if network == "none" else {"nsmode": "bridge"},
        "networks": {} if network == "none" else {network: {}},
        "resource_limits": {
            "memory": {"limit": host["Memory"], "swap": host["MemorySwap"]} if host["Memory"] else {},
            "cpu": {"period": CPU_PERIOD_US, "quota": max(1000, host["NanoCpus"] * CPU_PERIOD_US // 10**9)} if host["NanoCpus"] else {},
            "pids": {"limit": host["PidsLimit"]},
        },
        "sysctl": host["Sysctls"],
        "shm_size": host["ShmSize"],
        "r_limits": [{"type": limit["Name"].upper(), "soft": limit["Soft"], "hard": limit["Hard"]} for limit in host["Ulimits"]],
        "oom_score_adj": host["OomScoreAdj"],
        "privileged": False,
        "cap_drop": host["CapDrop"],
        "cap_add": host["CapAdd"],
        "no_new_privileges": True,
        "ipcns": {"nsmode": "private"},
        "read_only_filesystem": False,
        "restart_policy": "no",
        "log_configuration": {"driver": "json-file", "size": 2**20},
        "devices": [{"path": device} for device in cdi],
    }
