"""A real API server that knows no shares of devices, as all do below 1.36 until somebody says otherwise: it is found out, and told in words."""
import asyncio
from collections.abc import Iterator

import pytest

from gpufairy.engines.dra_check import dra_trouble
from gpufairy.engines.dra_gpus import GATE_OFF
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.node.dra.publisher import Publisher
from gpufairy.node.dra.values import Offer
from gpufairy.node.kube_access import by_kubeconfig
from kube import control_plane as parts
from kube.cluster import Cluster
from kube.soon import soon
from kube.start import control_plane

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture(scope="module")
def without_gate() -> Iterator[Cluster]:
    before, parts.GATES_WORD = parts.GATES_WORD, "--feature-gates=DRAConsumableCapacity=false"
    try:
        with control_plane() as made:
            yield made
    finally:
        parts.GATES_WORD = before


async def test_what_a_cluster_lacks_for_parts_of_gpus_is_said_with_what_to_do(without_gate):
    async with KubeApi(load_access(without_gate.kubeconfig, None, {})) as api:
        assert "no device class gpu.fairy" in await dra_trouble(api, "default")
        without_gate.put(CLASSES, {"metadata": {"name": "gpu.fairy"}, "spec": {}})
        assert await dra_trouble(api, "default") == GATE_OFF


async def test_with_the_gate_on_there_is_nothing_to_say(cluster):
    cluster.put(CLASSES, {"metadata": {"name": "gpu.fairy"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.fairy'"}}]}})
    async with KubeApi(load_access(cluster.kubeconfig, None, {})) as api:
        assert await dra_trouble(api, "default") == ""


async def test_without_the_gate_gpus_are_offered_whole_and_taken_off_the_list_by_who_leaves(without_gate, caplog):
    without_gate.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
    publisher = Publisher(lambda: by_kubeconfig(without_gate.kubeconfig), "n1", "time")
    running = asyncio.create_task(publisher.run())
    publisher.offer([Offer("gpu-a", "GPU-a", 0, "A100-40GB", 40960)], "580.1")
    assert without_gate.ask("GET", SLICES)["items"] == [], "before the kubelet has taken the driver"
    publisher.taken()
    (one,) = await soon(lambda: without_gate.ask("GET", SLICES)["items"], "the slice")
    assert "allowMultipleAllocations" not in one["spec"]["devices"][0]
    await soon(lambda: "DRAConsumableCapacity is off" in caplog.text, "the warning")
    written = (one["metadata"]["resourceVersion"], one["spec"]["pool"]["generation"])
    await soon(lambda: publisher._watching, "all to be as it shall be")  # there is no other sign of peace
    (same,) = without_gate.ask("GET", SLICES)["items"]
    assert same["spec"]["pool"]["generation"] <= written[1] + 1
    running.cancel()
    publisher.close()
    await asyncio.wait([running])
    await publisher.leave()
    publisher.close()
    assert without_gate.ask("GET", SLICES)["items"] == []
