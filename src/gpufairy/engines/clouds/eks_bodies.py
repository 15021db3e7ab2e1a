"""What EKS is asked for: the node group, and the tags by which the cluster-autoscaler knows of nodes that are not there yet. Pure."""
from collections.abc import Mapping
from typing import Any

from gpufairy.core.pool import Machine, Pool
from gpufairy.engines.clouds.contract import GPU_TAINT, node_labels

MANAGED = "gpufairy.io/managed-by"
TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
MIB = 2**20


def ami_type(version: str) -> str:
    """With NVIDIA's driver in it."""
    major, _, minor = version.partition(".")
    known = (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
    return "AL2_x86_64_GPU" if known is not None and known < (1, 30) else "AL2023_x86_64_NVIDIA"


def node_group(pool: Pool, role: str, subnets: list[str], ami: str) -> dict[str, Any]:
    spot = pool.options.get("capacity") == "spot"
    return {
        "clusterName": pool.cluster, "nodegroupName": pool.name, "nodeRole": role, "subnets": subnets, "amiType": ami,
        "instanceTypes": [pool.machine.instance], "capacityType": "SPOT" if spot else "ON_DEMAND", "diskSize": 100,
        "scalingConfig": {"minSize": pool.least, "maxSize": pool.most, "desiredSize": pool.least},
        "labels": node_labels(pool), "taints": [{"key": GPU_TAINT, "value": "present", "effect": "NO_SCHEDULE"}],
        "tags": {MANAGED: "gpufairy", "gpufairy.io/pool": pool.name, **autoscaler_tags(pool)},
        # Twice the same is once, also if the first answer was lost.
        "clientRequestToken": f"gpufairy-{pool.name}-{pool.made_at:%Y%m%d%H%M%S}",
    }  # fmt: skip


def autoscaler_tags(pool: Pool) -> dict[str, str]:
    """By the resources the autoscaler knows what a first node would have; by label and taint who may go there."""
    machine = pool.machine
    return {
        "k8s.io/cluster-autoscaler/enabled": "true", f"k8s.io/cluster-autoscaler/{pool.cluster}": "owned",
        **{f"{TEMPLATE}label/{name}": value for name, value in node_labels(pool).items()},
        f"{TEMPLATE}taint/{GPU_TAINT}": "present:NoSchedule",
        f"{TEMPLATE}resources/nvidia.com/gpu": str(machine.gpus),
    }  # fmt: skip


def tag_rows(group: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"ResourceId": group, "ResourceType": "auto-scaling-group", "Key": name, "Value": value, "PropagateAtLaunch": True}
        for name, value in tags.items()
    ]


def is_ours(group: Mapping[str, Any]) -> bool:
    return (group.get("tags") or {}).get(MANAGED) == "gpufairy"


def bounds(group: Mapping[str, Any]) -> tuple[int, int]:
    sizes = group["scalingConfig"]
    return sizes["minSize"], sizes["maxSize"]


def machine_told(told: Mapping[str, Any]) -> Machine | None:
    """As EC2 describes an instance type; None: it has no GPU of NVIDIA's."""
    gpus = [one for one in (told.get("GpuInfo") or {}).get("Gpus") or () if one.get("Manufacturer") == "NVIDIA"]
    if not gpus:
        return None
    first = gpus[0]
    return Machine(
        str(told["InstanceType"]), str(first.get("Name", "GPU")), sum(int(one.get("Count", 0)) for one in gpus),
        int((first.get("MemoryInfo") or {}).get("SizeInMiB", 0)) * MIB,
        int((told.get("VCpuInfo") or {}).get("DefaultVCpus", 0)) * 1000, int((told.get("MemoryInfo") or {}).get("SizeInMiB", 0)) * MIB,
    )  # fmt: skip
