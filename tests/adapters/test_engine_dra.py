"""What the Kubernetes engine makes of slices and claims of DRA: from what a real API server told of the agent's own."""
from dataclasses import replace
from typing import Any

import pytest

from gpufairy.core.errors import EngineRefused
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Sharing
from gpufairy.core.session import GpuSeat
from gpufairy.core.share import PARTS
from gpufairy.engines.dra_gpus import GATE_OFF, check_sharing, device_of, offered_gpus, slim_claim, slim_slice
from gpufairy.engines.dra_watch import DraGpus
from gpufairy.engines.pod_gpus import exactly
from gpufairy.engines.pod_settings import FractionsBy, GpuNames, PodSettings
from gpufairy.node.dra.slices import OfNode, slice_bodies
from gpufairy.node.dra.values import Offer

A, B = "GPU-a", "GPU-b"
MIB = 2**20
WHOLE = Offer("gpu-a", A, 0, "A100-40GB", 40960)
CUT = tuple(
    Offer(f"mig-{start}", f"MIG-{start}", 1, "A100-40GB", mib, B, 40960, profile, start, size)
    for profile, start, size, mib in (("1g.5gb", 0, 1, 4864), ("3g.20gb", 4, 4, 19968))
)


def told(*offers: Offer, sharing: str = "mps", node: str = "here", **more: Any) -> list[dict[str, Any]]:
    return list(slice_bodies(OfNode(node, "u", sharing, **more), offers, 1).values())


def a_claim(name: str, *devices: str, driver: str = "gpu.fairy") -> dict[str, Any]:
    results = [{"driver": driver, "pool": "here", "device": device, "request": "gpu"} for device in devices]
    return {"metadata": {"namespace": "ml", "name": name}, "status": {"allocation": {"devices": {"results": results}}}}


def devices(*offers: Offer, **more: Any) -> list:
    return [device for one in told(*offers, **more) for device in slim_slice(one).devices]


def test_a_gpu_is_known_by_its_uuid_kind_memory_and_how_it_is_shared():
    (gpu,) = offered_gpus(devices(WHOLE), {}, {})
    assert (gpu.index, gpu.uuid, gpu.kind, gpu.memory_bytes, gpu.sharing, gpu.closed) == (0, A, "A100-40GB", 40960 * MIB, Sharing.MPS, "")
    assert offered_gpus(devices(WHOLE, sharing="time"), {}, {})[0].sharing is Sharing.TIME


def test_instances_are_of_the_gpu_they_were_cut_from_and_those_that_others_have_are_left_out():
    whole, cut = offered_gpus(devices(WHOLE, *CUT), {"mig-4": ["ml/x"], "mig-0": []}, {})
    assert (whole.uuid, cut.uuid, cut.memory_bytes) == (A, B, 40960 * MIB)
    assert cut.instances == (MigInstance("1g.5gb", 0, 1, "MIG-0"),)
    assert [profile.name for profile in cut.mig.profiles] == ["1g.5gb", "3g.20gb"]


def test_a_gpu_of_which_another_claim_has_a_part_is_closed_with_its_name():
    (gpu,) = offered_gpus(devices(WHOLE), {"gpu-a": ["ml/x"]}, {})
    assert "ml/x" in gpu.closed
    assert "ml/x" in gpu.mps_stays


def test_where_the_cluster_knows_no_shares_a_gpu_can_be_had_whole_and_not_in_parts():
    (gpu,) = offered_gpus(devices(WHOLE, knows_shares=False), {}, {})
    assert (gpu.closed, gpu.mps_stays) == (GATE_OFF, "")


@pytest.mark.parametrize("device", [{}, {"name": "x", "attributes": {"uuid": {"string": "GPU-x"}}}, {"attributes": {}, "capacity": {"memory": {"value": "1Gi"}}}])
def test_a_device_that_says_too_little_is_given_to_nobody(device):
    assert device_of(device) is None


def test_what_is_of_another_driver_is_not_ours():
    (one,) = told(WHOLE)
    one["spec"]["driver"] = "gpu.nvidia.com"
    assert slim_slice(one) is None
    assert slim_claim(a_claim("x", "gpu-0", driver="gpu.nvidia.com")) is None
    assert slim_claim({"metadata": {"namespace": "ml", "name": "x"}}) is None


class Changes:
    def __init__(self, fractions: FractionsBy = FractionsBy.AUTO) -> None:
        self.nodes: list[str] = []
        self.gpus = DraGpus(None, PodSettings(gpus=GpuNames(fractions=fractions)), others="", tables={}, changed=self.nodes.append)


def test_each_change_of_slices_and_claims_names_its_node_and_nodes_without_have_none():
    seen = Changes()
    slice_, claim = slim_slice(told(WHOLE)[0]), slim_claim(a_claim("x", "gpu-a"))
    assert seen.gpus.gpus("here") is None
    seen.gpus._slice_changed(None, slice_)
    seen.gpus._claim_changed(None, claim)
    seen.gpus._claim_changed(None, replace(claim, name="ml/y"))
    assert "ml/x" in seen.gpus.gpus("here")[0].closed
    seen.gpus._claim_changed(claim, None)
    assert "ml/y" in seen.gpus.gpus("here")[0].closed
    seen.gpus._claim_changed(replace(claim, name="ml/y"), None)
    assert seen.gpus.gpus("here")[0].closed == ""
    seen.gpus._slice_changed(slice_, None)
    assert seen.gpus.gpus("here") is None
    assert set(seen.nodes) == {"here"}


async def test_where_somebody_else_gives_out_parts_slices_are_not_looked_at():
    assert await Changes(FractionsBy.HAMI).gpus.open() == []


def a_seat(**more: Any) -> GpuSeat:
    return GpuSeat(0, A, PARTS // 4, 10240 * MIB, sharing=Sharing.MPS, **more)


def test_a_part_is_asked_for_by_memory_and_cores_and_an_instance_by_its_uuid_alone():
    part = exactly(a_seat(), GpuNames())
    assert part["capacity"] == {"requests": {"memory": "10240Mi", "cores": "25"}}
    assert part["selectors"][0]["cel"]["expression"] == f"device.attributes['gpu.fairy'].uuid == '{A}'"
    cut = exactly(a_seat(profile="1g.5gb", instance_uuid="MIG-0"), GpuNames())
    assert "capacity" not in cut
    assert "MIG-0" in cut["selectors"][0]["cel"]["expression"]


def test_a_way_of_sharing_that_the_nodes_agent_does_not_have_is_refused_with_what_to_do():
    with pytest.raises(EngineRefused, match=r"to be shared by mps, and the agent of here shares it by time") as told_:
        check_sharing(a_seat(), "here", devices(WHOLE, sharing="time"))
    assert "agents.dra.sharing" in told_.value.next_step
    check_sharing(a_seat(), "here", devices(WHOLE))
    check_sharing(replace(a_seat(), parts=PARTS), "here", devices(WHOLE, sharing="time"))
