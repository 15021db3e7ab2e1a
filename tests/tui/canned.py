"""Nodes as the API tells them, for tests: what a builder is not told is not known."""
from gpufairy.api.host_shapes import NOTHING_READ

GIB = 2**30


def a_process(pid=4242, user="alice", **told):
    return {
        "pid": pid, "command": "python", "command_line": None, "user": user, "known_by": "session", "outside": False, "session": "brave-otter",
        "container": None, "pod": None, "namespace": None, "memory_bytes": 20 * GIB, "utilisation": 0.8, "memory_utilisation": None,
        "active": True, "active_why": "", "started_s": None, **told,
    }  # fmt: skip


def a_gpu(index=0, *, processes=(), free=None, why="", idle=False, **told):
    taken = bool(processes)
    return {
        **NOTHING_READ, "label": str(index), "index": index, "uuid": f"GPU-{index}", "kind": "H200", "product": "NVIDIA H200", "simulated": False,
        "memory_bytes": 141 * GIB, "mig": False, "instances": None, "holders": [], "processes": list(processes),
        "now": {"free": (not taken) if free is None else free, "idle": idle, "why": why or ("taken" if taken else "nobody is on it")}, **told,
    }  # fmt: skip


def an_instance(label="0_1_0", **told):
    return {**a_gpu(int(label.partition("_")[0])), "label": label, "uuid": f"MIG-{label}", "profile": "3g.71gb", "memory_bytes": 71 * GIB, **told}


def a_host(at="2026-11-15T08:00:00Z", **told):
    return {
        "at": at, "cpus": 64, "cpu_used": 0.25, "cores": [0.1, 0.9], "load_1m": 12.5, "memory_total_bytes": 512 * GIB,
        "memory_available_bytes": 384 * GIB, "disks": [], "mounts": [], "networks": [], "temperatures_c": [], "up_s": 90000.0, "users": [], **told,
    }  # fmt: skip


def a_node(name="gpu01", gpus=(), **told):
    return {
        "name": name, "state": "ready", "why": "", "pool": None, "runs_sessions": True, "gpus": list(gpus), "host": None, "trouble": [], "lost": [],
        "driver": None, **told,
    }  # fmt: skip
