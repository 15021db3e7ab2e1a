"""Pools as the engine sees them: which nodes are offered, which are kept for those who waited, and what who waits is told."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pool_scene import a_pool

from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.pool import Cloud, Pool, PoolState
from gpufairy.engines.pod_seen import PodSeen, slim_pod
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.pool_nodes import JUST_COME, PoolNodes, claim_trouble, trouble_said

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
READY = a_pool(Cloud.KARPENTER, state=PoolState.READY)


class FakePods:
    """As much of PodList as pools need."""

    def __init__(self) -> None:
        self.unbound: list[tuple[PodSeen, str]] = []
        self.bound: list[PodSeen] = []

    def waiting(self) -> list[tuple[PodSeen, str]]:
        return self.unbound

    def pods(self) -> list[PodSeen]:
        return [*self.bound, *(pod for pod, _ in self.unbound)]


def a_pod(name: str = "p", node: str = "", made_ago: timedelta = timedelta(0)) -> PodSeen:
    made = (NOW - made_ago).isoformat().replace("+00:00", "Z")
    return slim_pod({"metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": made}, "spec": {"nodeName": node}, "status": {}})


def a_node(name: str, came_ago: timedelta = timedelta(hours=1), **fields: Any) -> Node:
    gpu = Gpu(0, f"kube:{name}/gpu/0", "A10", 24 * 2**30)
    return replace(Node(name, 3700, 14 * 2**30, (gpu,), pool="train-gpu", came_at=NOW - came_ago), **fields)


def the_pools(pods: FakePods, pool: Pool = READY) -> PoolNodes:
    made = PoolNodes(None, PodSettings(), pods, lambda: None)
    made.pools = lambda: {pool.name: pool}
    return made


def offered(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes if node.coming_s is not None]


def test_what_a_pool_may_grow_by_is_offered_beside_what_is_there():
    found = the_pools(FakePods()).with_coming([a_node("ip-1"), a_node("cpu", pool=None)], NOW)
    assert offered(found) == ["train-gpu+1", "train-gpu+2", "train-gpu+3"]
    assert [node.name for node in found][:2] == ["ip-1", "cpu"]


def test_a_node_that_came_tells_what_the_next_ones_really_have():
    pools = the_pools(FakePods())
    guessed = pools.with_coming([], NOW)[0]
    assert (guessed.cpus_milli, guessed.memory_bytes < 15 * 2**30) == (3750, True)
    pools.with_coming([a_node("ip-1")], NOW)
    assert pools.with_coming([], NOW)[0].cpus_milli == 3700


def test_one_that_somebody_waits_for_keeps_its_name_and_counts():
    pods = FakePods()
    pods.unbound = [(a_pod(), "train-gpu+2")]
    assert offered(the_pools(pods).with_coming([a_node("ip-1")], NOW)) == ["train-gpu+1", "train-gpu+2", "train-gpu+3"]


def test_a_node_that_has_just_come_is_kept_for_who_waited_for_it():
    pods = FakePods()
    pods.unbound = [(a_pod(), "train-gpu+1")]
    nodes = [a_node("old", timedelta(hours=1)), a_node("used", timedelta(seconds=20)), a_node("new", timedelta(seconds=5))]
    pods.bound = [a_pod("other", "used")]
    found = {node.name: node for node in the_pools(pods).with_coming(nodes, NOW)}
    assert (found["new"].state, found["new"].state_why) == (NodeState.DRAINED, JUST_COME)
    assert (found["old"].state, found["used"].state) == (NodeState.READY, NodeState.READY)
    later = {node.name: node for node in the_pools(pods).with_coming(nodes, NOW + timedelta(minutes=3))}
    assert later["new"].state is NodeState.READY  # whoever has not been bound by then never will


def test_who_waits_is_told_how_long_and_who_waits_for_something_else_is_not():
    pools = the_pools(FakePods())
    assert pools.words(a_pod(made_ago=timedelta(seconds=70)), "train-gpu+1", NOW) == "node is coming, about 2 min"
    assert pools.words(a_pod(), "ip-1", NOW) is None
    assert pools.words(a_pod(node="ip-1"), "train-gpu+1", NOW) is None
    assert pools.words(a_pod(), "unknown-pool+1", NOW) is None


def an_event(reason: str, message: str, source: str, minute: int) -> dict[str, Any]:
    return {"reason": reason, "message": message, "source": {"component": source}, "lastTimestamp": f"2026-11-15T12:{minute:02}:00Z"}


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([an_event("NotTriggerScaleUp", "1 max node group size reached", "cluster-autoscaler", 1)], "1 max node group size reached"),
        ([an_event("NotTriggerScaleUp", "max", "cluster-autoscaler", 1), an_event("TriggeredScaleUp", "0->1", "cluster-autoscaler", 2)], ""),
        ([an_event("FailedScheduling", "0/3 nodes are available", "default-scheduler", 3)], ""),
        ([{"reason": "FailedScheduling", "message": "exceed limits", "reportingComponent": "karpenter", "eventTime": "2026-11-15T12:00:00.5Z"}], "exceed limits"),
        ([], ""),
    ],
)  # fmt: skip
def test_the_last_word_of_who_makes_nodes_counts(events, said):
    assert trouble_said(events) == said


def test_a_claim_that_its_cloud_refused_tells_why():
    refused = {"status": {"conditions": [{"type": "Launched", "status": "False", "message": "InsufficientInstanceCapacity: g5.xlarge"}]}}
    under_way = {"status": {"conditions": [{"type": "Launched", "status": "Unknown"}]}}
    assert claim_trouble([under_way, refused]) == "InsufficientInstanceCapacity: g5.xlarge"
    assert claim_trouble([under_way, {}]) == ""
