"""Pools by Karpenter: a NodePool in the cluster itself. It makes nodes when pods wait for them, and takes them away when they are empty."""
from typing import Any

from gpufairy.core import failpoints
from gpufairy.core.errors import BadInput, EngineRefused
from gpufairy.core.pool import Machine, Pool, Step
from gpufairy.engines.clouds.contract import GPU_TAINT, node_labels
from gpufairy.engines.clouds.machines import machine_of
from gpufairy.engines.clouds.plugin import DevicePlugin
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused

POOLS = "/apis/karpenter.sh/v1/nodepools"
# What Karpenter calls the classes of nodes, cloud by cloud.
CLASSES = (
    ("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses"), ("eks.amazonaws.com", "v1", "NodeClass", "nodeclasses"),
    ("karpenter.azure.com", "v1beta1", "AKSNodeClass", "aksnodeclasses"),
    ("karpenter.k8s.gcp", "v1alpha1", "GCENodeClass", "gcenodeclasses"),
    ("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", "kwoknodeclasses"),
)  # fmt: skip
MANAGED = "app.kubernetes.io/managed-by"
EMPTY_AFTER = "5m"  # the next job of the same person often comes within minutes
# Empty nodes go at once, all of them; for other reasons few at a time.
BUDGETS = [{"nodes": "100%", "reasons": ["Empty"]}, {"nodes": "10%", "reasons": ["Drifted", "Underutilized"]}]
NOT_FOUND = 404


class KarpenterPools:
    def __init__(self, api: KubeApi) -> None:
        self._api, self._plugin = api, DevicePlugin(api)

    async def machine(self, pool: Pool) -> Machine:
        return machine_of(pool, ("aws", "gcp"))

    async def steps(self, pool: Pool) -> tuple[Step, ...]:
        found, wanted = await self._found(pool), await self._wanted(pool)
        is_there = found is not None and is_as(found["spec"], wanted["spec"])
        details = {
            "instance": pool.machine.instance, "GPUs at most": str(pool.most * pool.machine.gpus), "label": f"role={pool.name}",
            "taint": f"{GPU_TAINT}:NoSchedule", "goes when empty for": wanted["spec"]["disruption"]["consolidateAfter"],
            "node class": wanted["spec"]["template"]["spec"]["nodeClassRef"]["name"],
        }  # fmt: skip
        return Step("Karpenter NodePool", pool.name, is_there, details), await self._plugin.step()

    async def make(self, pool: Pool) -> str:
        wanted = await self._wanted(pool)
        await self._found(pool)  # not one of somebody else's
        await self._plugin.make()
        failpoints.passing("after_device_plugin_before_node_pool")
        await self._api.apply(f"{POOLS}/{pool.name}", wanted, manager="gpufairy")
        return ""

    async def remove(self, pool: Pool) -> str:
        found = await self._found(pool)
        if found is not None:
            await self._api.delete(f"{POOLS}/{pool.name}")
            found = await self._found(pool)
        if found is not None:
            return f"NodePool {pool.name} goes when its nodes have gone"
        failpoints.passing("after_node_pool_gone_before_device_plugin")
        ours = [one async for one in self._api.list(POOLS, labels=f"{MANAGED}=gpufairy")]
        if not ours:
            await self._plugin.remove()
        return ""

    async def _found(self, pool: Pool) -> dict[str, Any] | None:
        """Raises EngineRefused: there is no Karpenter, or the NodePool is somebody else's."""
        try:
            found: dict[str, Any] = await self._api.get(f"{POOLS}/{pool.name}")
        except KubeRefused as error:
            if error.status != NOT_FOUND:
                raise
            if f'"{pool.name}" not found' not in error.message:
                said = "this cluster has no Karpenter: it knows no NodePools"
                raise EngineRefused(said, "Install it: https://karpenter.sh/docs/") from error
            return None
        if (found["metadata"].get("labels") or {}).get(MANAGED) != "gpufairy":
            said = f"there is a NodePool {pool.name} that gpufairy has not made"
            raise EngineRefused(said, "Take another name, or remove that one: kubectl delete nodepool.")
        return found

    async def _wanted(self, pool: Pool) -> dict[str, Any]:
        return node_pool(pool, await self._class_of(pool.options.get("node_class", "default")))

    async def _class_of(self, name: str) -> dict[str, str]:
        for group, version, kind, plural in CLASSES:
            try:
                await self._api.get(f"/apis/{group}/{version}/{plural}/{name}")
            except KubeRefused as error:
                if error.status != NOT_FOUND:
                    raise
                continue
            return {"group": group, "kind": kind, "name": name}
        raise BadInput(f"node class: Karpenter has none named {name!r}", "Name one by --node-class; see `kubectl get ec2nodeclasses`.")


def node_pool(pool: Pool, node_class: dict[str, str]) -> dict[str, Any]:
    """`least` above zero Karpenter does not know: its pools are empty at rest."""
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [pool.machine.instance]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [pool.options.get("capacity", "on-demand")]},
    ]
    spec = {"nodeClassRef": node_class, "taints": [{"key": GPU_TAINT, "effect": "NoSchedule"}], "requirements": requirements}
    return {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name, "labels": {MANAGED: "gpufairy"}},
        "spec": {
            "limits": {"nvidia.com/gpu": str(pool.most * pool.machine.gpus)},
            "disruption": {
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": pool.options.get("empty_after", EMPTY_AFTER), "budgets": BUDGETS,
            },
            "template": {"metadata": {"labels": node_labels(pool)}, "spec": spec},
        },
    }  # fmt: skip


def is_as(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there; what the API server has added counts for nothing."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(is_as(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(is_as, found, wanted))
    return bool(found == wanted)


def open_pools(api: KubeApi) -> KarpenterPools:
    return KarpenterPools(api)
