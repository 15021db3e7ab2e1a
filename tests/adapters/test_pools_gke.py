"""Pools on GKE, against Google's own gRPC service interface, served here: what is asked, that it is asked once, and what comes of a no."""
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.cloud.container_v1 import ClusterManagerAsyncClient, types
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerGrpcAsyncIOTransport
from pool_scene import a_pool

from gpufairy.control.pools import bare_machine
from gpufairy.core.errors import BadInput, EngineRefused, EngineSilent
from gpufairy.core.pool import Cloud, Pool
from gpufairy.engines.clouds.gke import GkePools

pytestmark = pytest.mark.slow
CLUSTER = "projects/lab-42/locations/europe-west4/clusters/train"
POOL = f"{CLUSTER}/nodePools/train-gpu"
RUNNING, STOPPING = types.NodePool.Status.RUNNING, types.NodePool.Status.STOPPING


class Google:
    """The service as its interface has it: what it holds, and what it was asked."""

    def __init__(self) -> None:
        self.pools: dict[str, types.NodePool] = {}
        self.asked: list[tuple[str, Any]] = []
        self.no: dict[str, tuple[grpc.StatusCode, str]] = {}

    def handlers(self) -> grpc.GenericRpcHandler:
        methods = {
            "GetCluster": (types.GetClusterRequest, types.Cluster, self.get_cluster), "GetNodePool": (types.GetNodePoolRequest, types.NodePool, self.get),
            "CreateNodePool": (types.CreateNodePoolRequest, types.Operation, self.create), "DeleteNodePool": (types.DeleteNodePoolRequest, types.Operation, self.delete),
            "SetNodePoolAutoscaling": (types.SetNodePoolAutoscalingRequest, types.Operation, self.scale),
        }  # fmt: skip
        served = {
            name: grpc.unary_unary_rpc_method_handler(self.guarded(name, answer), request_deserializer=asked.deserialize, response_serializer=told.serialize)
            for name, (asked, told, answer) in methods.items()
        }
        return grpc.method_handlers_generic_handler("google.container.v1.ClusterManager", served)

    def guarded(self, name: str, answer: Callable[[Any], Any]) -> Callable[..., Any]:
        async def answered(request: Any, context: grpc.aio.ServicerContext) -> Any:
            self.asked.append((name, request))
            if name in self.no:
                await context.abort(*self.no[name])
            try:
                return answer(request)
            except KeyError as error:
                await context.abort(grpc.StatusCode.NOT_FOUND, f"Not found: {error}")

        return answered

    def get_cluster(self, request: types.GetClusterRequest) -> types.Cluster:
        return {CLUSTER: types.Cluster(name="train")}[request.name]

    def get(self, request: types.GetNodePoolRequest) -> types.NodePool:
        return self.pools[request.name]

    def create(self, request: types.CreateNodePoolRequest) -> types.Operation:
        made = types.NodePool(request.node_pool)
        made.status = types.NodePool.Status.PROVISIONING
        self.pools[f"{request.parent}/nodePools/{made.name}"] = made
        return types.Operation(name="operation-1")

    def scale(self, request: types.SetNodePoolAutoscalingRequest) -> types.Operation:
        self.pools[request.name].autoscaling = request.autoscaling
        return types.Operation(name="operation-2")

    def delete(self, request: types.DeleteNodePoolRequest) -> types.Operation:
        self.pools[request.name].status = STOPPING
        return types.Operation(name="operation-3")

    def times(self, name: str) -> int:
        return sum(asked == name for asked, _ in self.asked)


@pytest.fixture
async def google() -> AsyncIterator[Google]:
    service, server = Google(), grpc.aio.server()
    server.add_generic_rpc_handlers((service.handlers(),))
    service.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield service
    await server.stop(None)


@pytest.fixture
async def pools(google: Google) -> AsyncIterator[GkePools]:
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{google.port}")
    yield GkePools(lambda: ClusterManagerAsyncClient(transport=ClusterManagerGrpcAsyncIOTransport(channel=channel)))
    await channel.close()


async def wanted(pools: GkePools, **fields: Any) -> Pool:
    pool = a_pool(Cloud.GKE, **{"cluster": "lab-42/europe-west4/train", "machine": bare_machine("g2-standard-4"), **fields})
    return replace(pool, machine=await pools.machine(pool))


async def test_a_plan_tells_what_would_be_made_and_makes_nothing(google, pools):
    pool = await wanted(pools)
    (step,) = await pools.steps(pool)
    assert (step.what, step.there, step.details["GPUs"]) == ("GKE node pool", False, "1 x nvidia-l4")
    assert pool.machine.price_micros == 706_830
    assert google.times("CreateNodePool") == 0


async def test_one_command_makes_the_node_pool_that_sleeps_at_zero_with_driver_label_and_taint(google, pools):
    pool = await wanted(pools)
    assert await pools.make(pool) == "its node pool is being made"
    assert await pools.make(pool) == "its node pool is provisioning"
    google.pools[POOL].status = RUNNING
    assert await pools.make(pool) == ""
    made = google.pools[POOL]
    assert (made.initial_node_count, made.autoscaling.enabled, made.autoscaling.total_min_node_count, made.autoscaling.total_max_node_count) == (0, True, 0, 4)
    assert (made.config.machine_type, made.config.labels["role"]) == ("g2-standard-4", "train-gpu")
    assert (made.config.taints[0].key, made.config.taints[0].effect) == ("nvidia.com/gpu", types.NodeTaint.Effect.NO_SCHEDULE)
    gpus = made.config.accelerators[0]
    assert (gpus.accelerator_type, gpus.accelerator_count, gpus.gpu_driver_installation_config.gpu_driver_version.name) == ("nvidia-l4", 1, "DEFAULT")
    assert google.times("CreateNodePool") == 1
    assert (await pools.steps(pool))[0].there


async def test_other_bounds_are_changed_and_nothing_else(google, pools):
    await pools.make(await wanted(pools))
    google.pools[POOL].status = RUNNING
    more = await wanted(pools, most=9)
    assert await pools.make(more) == "its bounds are being changed"
    assert await pools.make(more) == ""
    assert (google.pools[POOL].autoscaling.total_max_node_count, google.times("CreateNodePool")) == (9, 1)


async def test_it_is_taken_away_and_asked_for_once(google, pools):
    pool = await wanted(pools)
    await pools.make(pool)
    google.pools[POOL].status = RUNNING
    assert await pools.remove(pool) == "its node pool is being removed"
    assert await pools.remove(pool) == "its node pool is being removed"
    del google.pools[POOL]
    assert await pools.remove(pool) == ""
    assert google.times("DeleteNodePool") == 1


async def test_a_node_pool_of_somebody_else_is_left_alone(google, pools):
    google.pools[POOL] = types.NodePool(name="train-gpu", status=RUNNING)
    for deed in (pools.make, pools.remove, pools.steps):
        with pytest.raises(EngineRefused, match="a node pool train-gpu that gpufairy has not made"):
            await deed(await wanted(pools))
    assert {asked for asked, _ in google.asked} == {"GetNodePool"}


async def test_what_google_says_no_to_is_told_with_what_may_be_missing(google, pools):
    google.no["CreateNodePool"] = grpc.StatusCode.PERMISSION_DENIED, "Required 'container.clusters.update' permission"
    with pytest.raises(EngineRefused, match=r"Google refused to create node pool for pool train-gpu: Required 'container\.clusters\.update'") as caught:
        await pools.make(await wanted(pools))
    assert "roles/container.admin" in caught.value.next_step


async def test_no_answer_is_no_refusal(google, pools):
    google.no["CreateNodePool"] = grpc.StatusCode.UNAVAILABLE, "try later"
    with pytest.raises(EngineSilent, match="Google gave no answer to create node pool"):
        await pools.make(await wanted(pools))


async def test_a_node_pool_that_failed_is_told_in_googles_words(google, pools):
    await pools.make(await wanted(pools))
    google.pools[POOL].status = types.NodePool.Status.ERROR
    google.pools[POOL].conditions = [types.StatusCondition(message="GCE_STOCKOUT: no L4 in europe-west4-a")]
    with pytest.raises(EngineRefused, match="node pool train-gpu is ERROR: GCE_STOCKOUT"):
        await pools.make(await wanted(pools))


async def test_what_cannot_be_understood_is_told_before_anything_is_asked(google, pools):
    with pytest.raises(BadInput, match="cluster: found 'train'") as caught:
        await pools.steps(await wanted(pools, cluster="train"))
    assert "PROJECT/LOCATION/NAME" in caught.value.next_step
    with pytest.raises(BadInput, match=r"nothing is known here of 'g2-standard-5' \(did you mean g2-standard"):
        await wanted(pools, machine=bare_machine("g2-standard-5"))
    assert google.asked == []
