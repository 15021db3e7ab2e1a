"""Pools on GKE: a node pool with autoscaling from zero, whose GPU driver and device plugin are Google's own. By google-cloud-container."""
from collections.abc import Awaitable, Callable
from typing import Any

from google.api_core.exceptions import GoogleAPICallError, NotFound, RetryError
from google.auth.exceptions import GoogleAuthError
from google.cloud import container_v1
from google.cloud.container_v1 import types

from gpufairy.core.errors import BadInput, EngineRefused, EngineSilent
from gpufairy.core.pool import Machine, Pool, Step
from gpufairy.engines.clouds.contract import GPU_TAINT, node_labels
from gpufairy.engines.clouds.machines import accelerator, machine_of
from gpufairy.engines.kube.api import KubeApi

MANAGED = "gpufairy-managed-by"
LIMIT_S = 30.0
SILENT = (503, 504, 429)  # of HTTP, as Google's library tells them
MAY = "An account that may do this: roles/container.admin on the project. See docs/pools.md."
REACH = "Has the server credentials of Google (GOOGLE_APPLICATION_CREDENTIALS, or its own account), and does it reach Google?"
Manager = container_v1.ClusterManagerAsyncClient


class GkePools:
    def __init__(self, connect: Callable[[], Manager]) -> None:
        self._connect = connect
        self._manager: Manager | None = None

    async def machine(self, pool: Pool) -> Machine:
        return machine_of(pool, ("gcp",))

    async def steps(self, pool: Pool) -> tuple[Step, ...]:
        wanted, found = node_pool(pool), await self._found(pool)
        await self._ask(pool, "get cluster", lambda manager: manager.get_cluster(name=parent_of(pool), timeout=LIMIT_S))
        gpu = wanted.config.accelerators[0]
        details = {
            "cluster": pool.cluster, "instance": wanted.config.machine_type, "nodes": f"{pool.least} to {pool.most}",
            "GPUs": f"{gpu.accelerator_count} x {gpu.accelerator_type}", "driver": "installed by GKE", "label": f"role={pool.name}",
            "taint": f"{GPU_TAINT}:NoSchedule",
        }  # fmt: skip
        return (Step("GKE node pool", pool.name, found is not None and bounds(found) == (pool.least, pool.most), details),)

    async def make(self, pool: Pool) -> str:
        found = await self._found(pool)
        status = None if found is None else types.NodePool.Status(found.status)
        if found is None:
            asked = types.CreateNodePoolRequest(parent=parent_of(pool), node_pool=node_pool(pool))
            await self._ask(pool, "create node pool", lambda manager: manager.create_node_pool(asked, timeout=LIMIT_S))
            return "its node pool is being made"
        if status in (types.NodePool.Status.ERROR, types.NodePool.Status.RUNNING_WITH_ERROR):
            said = "; ".join(one.message for one in found.conditions) or "Google says no more"
            raise EngineRefused(f"node pool {pool.name} is {status.name}: {said}", "See it in Google's console.")
        if status is not types.NodePool.Status.RUNNING:
            return f"its node pool is {status.name.lower() if status is not None else 'not ready'}"
        if bounds(found) != (pool.least, pool.most):
            sizes = types.SetNodePoolAutoscalingRequest(name=name_of(pool), autoscaling=scaling(pool))
            await self._ask(pool, "set autoscaling", lambda manager: manager.set_node_pool_autoscaling(sizes, timeout=LIMIT_S))
            return "its bounds are being changed"
        return ""

    async def remove(self, pool: Pool) -> str:
        found = await self._found(pool)
        if found is None:
            return ""
        if types.NodePool.Status(found.status) is not types.NodePool.Status.STOPPING:
            await self._ask(pool, "delete node pool", lambda manager: manager.delete_node_pool(name=name_of(pool), timeout=LIMIT_S))
        return "its node pool is being removed"

    async def _found(self, pool: Pool) -> types.NodePool | None:
        """None: there is none. Raises EngineRefused: there is one of somebody else's."""
        try:
            found = await self._ask(pool, "get node pool", lambda manager: manager.get_node_pool(name=name_of(pool), timeout=LIMIT_S))
        except EngineRefused as error:
            if isinstance(error.__cause__, NotFound):
                return None
            raise
        if dict(found.config.resource_labels).get(MANAGED) != "gpufairy":
            said = f"cluster {pool.cluster} has a node pool {pool.name} that gpufairy has not made"
            raise EngineRefused(said, "Take another name, or remove that one.")
        node_pool_found: types.NodePool = found
        return node_pool_found

    async def _ask(self, pool: Pool, what: str, call: Callable[[Manager], Awaitable[Any]]) -> Any:
        try:
            self._manager = self._manager or self._connect()
            return await call(self._manager)
        except (RetryError, GoogleAuthError) as error:
            raise EngineSilent(f"Google was not asked to {what} for pool {pool.name}: {error}", REACH) from error
        except GoogleAPICallError as error:
            if error.code in SILENT:
                found = f"Google gave no answer to {what} for pool {pool.name}: {error.message}"
                raise EngineSilent(found, "It is tried again.") from error
            raise EngineRefused(f"Google refused to {what} for pool {pool.name}: {error.message}", MAY) from error


def node_pool(pool: Pool) -> types.NodePool:
    """GKE itself taints nodes with GPUs, and installs driver and device plugin. Raises BadInput."""
    kind = accelerator(pool.machine.instance)
    if kind is None:
        found = f"instance: {pool.machine.instance!r} is no machine with GPUs of which Google's name for them is known here"
        raise BadInput(found, "Take one of the families g2, a2 or a3, such as g2-standard-4.")
    driver = types.GPUDriverInstallationConfig(gpu_driver_version=types.GPUDriverInstallationConfig.GPUDriverVersion.DEFAULT)
    gpus = types.AcceleratorConfig(accelerator_count=pool.machine.gpus, accelerator_type=kind, gpu_driver_installation_config=driver)
    taint = types.NodeTaint(key=GPU_TAINT, value="present", effect=types.NodeTaint.Effect.NO_SCHEDULE)
    config = types.NodeConfig(
        machine_type=pool.machine.instance, accelerators=[gpus], labels=node_labels(pool), taints=[taint],
        resource_labels={MANAGED: "gpufairy"}, spot=pool.options.get("capacity") == "spot",
        oauth_scopes=["https://www.googleapis.com/auth/cloud-platform"],
    )  # fmt: skip
    return types.NodePool(name=pool.name, initial_node_count=pool.least, config=config, autoscaling=scaling(pool))


def scaling(pool: Pool) -> types.NodePoolAutoscaling:
    return types.NodePoolAutoscaling(enabled=True, total_min_node_count=pool.least, total_max_node_count=pool.most)


def bounds(found: types.NodePool) -> tuple[int, int]:
    return found.autoscaling.total_min_node_count, found.autoscaling.total_max_node_count


def parent_of(pool: Pool) -> str:
    """Raises BadInput."""
    words = [word for word in pool.cluster.split("/") if word not in ("projects", "locations", "zones", "clusters")]
    if len(words) != 3 or not all(words):
        raise BadInput(f"cluster: found {pool.cluster!r}", "Write PROJECT/LOCATION/NAME, such as lab-42/europe-west4/train.")
    return "projects/{}/locations/{}/clusters/{}".format(*words)


def name_of(pool: Pool) -> str:
    return f"{parent_of(pool)}/nodePools/{pool.name}"


def open_pools(api: KubeApi) -> GkePools:
    return GkePools(container_v1.ClusterManagerAsyncClient)
