"""NVIDIA's device plugin, for clusters that have none: without it nobody tells Kubernetes how many GPUs a node has."""
from collections.abc import Mapping
from typing import Any

from gpufairy.core.pool import Step
from gpufairy.engines.clouds.contract import GPU_TAINT, OURS
from gpufairy.engines.kube.api import KubeApi

NAMESPACE, NAME = "kube-system", "gpufairy-nvidia-device-plugin"
IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{NAME}"
PLUGINS = "/var/lib/kubelet/device-plugins"
MARKS = ("device-plugin", "gpu-operator")  # in the names of images of those who tell of GPUs, NVIDIA's or a cloud's own


class DevicePlugin:
    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def step(self) -> Step:
        others = await self._of_others()
        if others:
            return Step("NVIDIA device plugin", others, there=True)
        return Step("NVIDIA device plugin", f"DaemonSet {NAMESPACE}/{NAME}", there=await self._is_there(), details={"image": IMAGE})

    async def make(self) -> None:
        if not await self._of_others():
            await self._api.apply(PATH, body(), manager="gpufairy")

    async def remove(self) -> None:
        """Absent: fine."""
        await self._api.delete(PATH)

    async def _is_there(self) -> bool:
        return any([one["metadata"]["name"] == NAME async for one in self._api.list(PATH.rpartition("/")[0])])

    async def _of_others(self) -> str:
        """The name of one that is not ours; empty: there is none."""
        async for one in self._api.list("/apis/apps/v1/daemonsets"):
            about = one["metadata"]
            if about["name"] != NAME and tells_of_gpus(one):
                return f"DaemonSet {about['namespace']}/{about['name']}"
        return ""


def tells_of_gpus(daemons: Mapping[str, Any]) -> bool:
    containers = daemons["spec"]["template"]["spec"].get("containers") or ()
    images = [str(one.get("image", "")) for one in containers]
    return any(mark in image and ("nvidia" in image or "gpu" in image) for image in images for mark in MARKS)


def body() -> dict[str, Any]:
    """On nodes of pools alone: whoever has other GPU nodes has a plugin of their own there."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "gpufairy"}
    on_pools = {"matchExpressions": [{"key": OURS, "operator": "Exists"}]}
    spec = {
        "priorityClassName": "system-node-critical",
        "tolerations": [{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_pools]}}},
        "containers": [{
            "name": "plugin", "image": IMAGE, "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "volumeMounts": [{"name": "plugins", "mountPath": PLUGINS}],
        }],
        "volumes": [{"name": "plugins", "hostPath": {"path": PLUGINS}}],
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": NAME}}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }  # fmt: skip
