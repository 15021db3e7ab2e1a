"""The DRA driver without a kubelet: what it offers, what it grants, what it writes down, and how it waits."""
import asyncio
import json
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_mps import FakeMps
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.reading import GpuDevice, GpuSample
from gpufairy.devices.mps import MpsDaemons
from gpufairy.node.dra.cdi_files import spec_path
from gpufairy.node.dra.driver import Offered
from gpufairy.node.dra.ledger import Ledger
from gpufairy.node.dra.offers import offers_of
from gpufairy.node.dra.prepare import Claims
from gpufairy.node.dra.room import lacking
from gpufairy.node.dra.slices import OfNode, agree, lacks_shares, slice_bodies
from gpufairy.node.dra.values import MIB, Asked, Grant, Offer, Part

A, B = "GPU-11111111-2222-3333-4444-555555555555", "GPU-99999999-2222-3333-4444-555555555555"
GIB = 2**30
OFFERS = {uuid.lower(): Offer(uuid.lower(), uuid, index, "A100-40GB", 40960) for index, uuid in enumerate((A, B))}
INSTANCE = Offer("mig-1", "MIG-1", 1, "A100-40GB", 4864, B, 40960, "1g.5gb", 0, 1)


class Calls:
    """An API server that tells of these claims; `silent`: so many times it gives no answer first."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.silent, self.asked = 0, 0

    def put(self, name: str, *parts: tuple[str, int, int], pod: str = "") -> Asked:
        """Each part: of which GPU, GiB, percent."""
        results = [
            {"driver": "gpu.fairy", "request": f"gpu-{place}", "pool": "here", "device": gpu.lower(), "shareID": f"s{place}",
             "consumedCapacity": {"memory": f"{gib}Gi", "cores": str(cores)}}
            for place, (gpu, gib, cores) in enumerate(parts)
        ]  # fmt: skip
        reserved = [{"resource": "pods", "name": name, "uid": pod or f"pod-{name}"}]
        self.claims[f"/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/{name}"] = {
            "metadata": {"uid": f"uid-{name}"}, "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
        }  # fmt: skip
        return Asked("ml", name, f"uid-{name}")

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked += 1
        if self.silent:
            self.silent -= 1
            raise EngineSilent("the API server gave no answer")
        if path not in self.claims:
            raise EngineRefused("it is gone")
        return self.claims[path]


class NoMps:
    async def ready(self, gpu: str, *, sm_percent: int, memory_bytes: int) -> Path | None:
        return None

    async def give_up(self, gpu: str) -> None:
        pass


class Here:
    def __init__(self, folder: Path, *, patience_s: float = 20.0, mps: Any = None) -> None:
        self.cdi, self.calls, self.offers = folder / "cdi", Calls(), dict(OFFERS)
        (folder / "library").write_bytes(b"\x7fELF")
        self.ledger = Ledger(folder / "claims")
        self.claims = Claims(
            self.ledger, self.calls, self.cdi, folder / "library", mps or NoMps(),
            offers=lambda: self.offers, vendor=lambda: frozenset({A, "1", "MIG-1"}), patience_s=patience_s,
        )  # fmt: skip

    def spec(self, claim: Asked) -> dict[str, Any]:
        return json.loads(spec_path(self.cdi, claim.uid).read_text())


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what a claim may write is given to root, as whom the agent runs on Kubernetes: needs root")


@pytest.fixture
def here(tmp_path) -> Here:
    return Here(tmp_path)


async def test_a_share_is_ready_with_its_files_and_gone_with_them_when_it_is_given_back(here):
    claim = here.calls.put("a", (A, 10, 25))
    (device,) = await here.claims.prepare(claim)
    assert device.cdi == (f"nvidia.com/gpu={A}", "gpu.fairy/claim=uid-a-0")
    edits = here.spec(claim)["devices"][0]["containerEdits"]
    assert {one["containerPath"]: one["options"][-1] for one in edits["mounts"]} == {
        "/run/fairy/share": "ro", "/etc/ld.so.preload": "ro", "/run/fairy/ledger": "rw",
    }
    assert f"FAIRY_SHARE={A}=10240MiB/25%" in edits["env"]
    await here.claims.unprepare(claim)
    assert not list(here.cdi.iterdir())
    assert not here.ledger.grants
    assert not here.ledger.home(claim.uid).exists()


async def test_the_same_asked_again_is_the_same_and_takes_no_api_server(here):
    claim = here.calls.put("a", (A, 10, 25))
    first = await here.claims.prepare(claim)
    here.calls.claims.clear()
    here.offers.clear()  # and no driver that tells of the GPU
    assert await here.claims.prepare(claim) == first


async def test_a_claim_that_nobody_knows_is_given_back_without_a_word(here):
    await here.claims.unprepare(Asked("ml", "unknown", "uid-unknown"))


async def test_who_comes_before_the_other_has_left_waits_for_it(here):
    old, new = here.calls.put("old", (A, 30, 75)), here.calls.put("new", (A, 20, 50))
    await here.claims.prepare(old)
    waiting = asyncio.create_task(here.claims.prepare(new))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    await here.claims.unprepare(old)
    assert await asyncio.wait_for(waiting, 5)
    assert [grant.claim for grant in here.ledger.grants] == [new]


async def test_who_waits_in_vain_is_told_who_holds_it(tmp_path):
    here = Here(tmp_path, patience_s=0.1)
    await here.claims.prepare(here.calls.put("old", (A, 30, 75)))
    with pytest.raises(EngineRefused, match=r"claim ml/new had to wait .* 40 GiB, and 50 GiB would be held: by ml/old"):
        await here.claims.prepare(here.calls.put("new", (A, 20, 20)))
    assert len(here.ledger.grants) == 1


async def test_an_api_server_that_is_silent_for_a_moment_is_asked_again(here):
    here.calls.silent = 1
    assert await here.claims.prepare(here.calls.put("a", (A, 10, 25)))


async def test_who_gives_up_while_it_waits_holds_nothing(here):
    await here.claims.prepare(here.calls.put("old", (A, 40, 100)))
    waiting = asyncio.create_task(here.claims.prepare(here.calls.put("new", (A, 10, 25))))
    await asyncio.wait([waiting], timeout=0.1)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert [grant.claim.name for grant in here.ledger.grants] == ["old"]
    assert len(list(here.cdi.iterdir())) == 1


async def test_what_cannot_be_written_is_not_held(here):
    claim = here.calls.put("a", (A, 10, 25))
    here.cdi.write_text("a file in its place")
    with pytest.raises(EngineRefused, match="cannot be made ready"):
        await here.claims.prepare(claim)
    assert not here.ledger.grants
    here.cdi.unlink()
    assert await here.claims.prepare(claim)


async def test_a_restart_keeps_what_is_held_and_makes_again_what_a_reboot_has_cleared(here, tmp_path):
    claim = here.calls.put("a", (A, 30, 75))
    first = await here.claims.prepare(claim)
    again = Here(tmp_path, patience_s=0.1)
    with pytest.raises(EngineRefused, match="had to wait"):
        await again.claims.prepare(again.calls.put("b", (A, 20, 20)))
    spec_path(here.cdi, claim.uid).unlink()
    assert await again.claims.prepare(claim) == first
    assert again.spec(claim)["devices"][0]["containerEdits"]["mounts"]


async def test_half_a_file_of_the_ledger_is_passed_over(here, tmp_path):
    await here.claims.prepare(here.calls.put("a", (A, 30, 75)))
    (tmp_path / "claims" / "uid-b").mkdir()
    (tmp_path / "claims" / "uid-b" / "grant.json").write_text('{"claim": {')
    assert [grant.claim.name for grant in Ledger(tmp_path / "claims").grants] == ["a"]


async def test_a_pod_may_have_one_claim_of_ours(here):
    await here.claims.prepare(here.calls.put("a", (A, 10, 25), pod="p"))
    with pytest.raises(EngineRefused, match="both claim ml/b and claim ml/a"):
        await here.claims.prepare(here.calls.put("b", (B, 10, 25), pod="p"))


async def test_a_whole_gpu_has_no_limits_and_is_named_by_its_number_where_its_vendor_does_so(here):
    claim = here.calls.put("a", (B, 40, 100))
    (device,) = await here.claims.prepare(claim)
    assert device.cdi[0] == "nvidia.com/gpu=1"
    assert "mounts" not in here.spec(claim)["devices"][0]["containerEdits"]


async def test_two_requests_on_one_gpu_are_one_limit(here):
    claim = here.calls.put("a", (A, 10, 25), (A, 5, 10))
    assert len(await here.claims.prepare(claim)) == 2
    limits = (here.ledger.home(claim.uid) / "inside/share/limits").read_text()
    assert limits.count(A) == 1
    assert f"memory_bytes={15 * GIB} sm_percent=35" in limits


async def test_a_gpu_that_no_cdi_file_names_is_refused_with_what_to_run(here):
    here.offers["gpu-x"] = Offer("gpu-x", "GPU-x", 5, "A100-40GB", 40960)
    with pytest.raises(EngineRefused) as told:
        await here.claims.prepare(here.calls.put("a", ("GPU-x", 10, 25)))
    assert "nvidia-ctk cdi generate" in told.value.next_step


@pytest.mark.slow
async def test_with_mps_its_pipes_come_in_and_a_whole_gpu_ends_it(tmp_path):
    fake, short = FakeMps(tmp_path), Path(tempfile.mkdtemp(prefix="mps-"))  # a socket's path has at most 107 bytes
    daemons = MpsDaemons(tmp_path / "mps", program=fake.program, short_folder=short)
    here = Here(tmp_path, mps=daemons)
    try:
        claim = here.calls.put("a", (A, 10, 25))
        await here.claims.prepare(claim)
        mounts = {one["containerPath"]: one for one in here.spec(claim)["devices"][0]["containerEdits"]["mounts"]}
        assert {"/run/fairy/mps", "/tmp/nvidia-mps"} <= mounts.keys()
        assert mounts["/tmp/nvidia-mps"]["options"][-1] == "ro"
        assert "mps /run/fairy/mps" in (here.ledger.home(claim.uid) / "inside/share/limits").read_text()
        with pytest.raises(EngineRefused, match="by MPS a program can use one shared GPU"):
            await here.claims.prepare(here.calls.put("b", (A, 10, 25), (B, 10, 25)))
        await here.claims.unprepare(claim)
        await here.claims.prepare(here.calls.put("c", (A, 40, 100)))
        assert not [one for one in daemons.status() if one.gpu == A and one.daemon_pid]
    finally:
        fake.end(tmp_path / "mps", short)
        shutil.rmtree(short)


GRANTS = st.lists(st.tuples(st.sampled_from(list(OFFERS)), st.integers(1, 40), st.integers(1, 100)), max_size=12)


@given(GRANTS)
def test_no_gpu_is_granted_beyond_what_it_has(asked):
    held: list[Grant] = []
    for number, (device, gib, cores) in enumerate(asked):
        wanted = Grant(Asked("ml", f"c{number}", f"u{number}"), (Part("gpu", "here", device, "s", gib * GIB, cores),))
        if not lacking(wanted, held, OFFERS):
            held.append(wanted)
    for name, offer in OFFERS.items():
        assert sum(grant.of(name)[0] for grant in held) <= offer.memory_mib * MIB
        assert sum(grant.of(name)[1] for grant in held) <= 100


def test_an_instance_is_one_claims_alone():
    mine, other = (Grant(Asked("ml", name, name), (Part("gpu", "here", "mig-1", "", 0, 100),)) for name in "ab")
    assert lacking(mine, [], {"mig-1": INSTANCE}) == ""
    assert "still held by ml/a" in lacking(other, [mine], {"mig-1": INSTANCE})
    assert lacking(mine, [mine], {"mig-1": INSTANCE}) == "", "what it has itself stands in nobody's way"


def a_sample(*devices: GpuDevice) -> GpuSample:
    return GpuSample(datetime(2026, 11, 15, tzinfo=UTC), devices, driver="580.1")


WHOLE = GpuDevice(A, "0", 0, "A100-40GB", 40960 * MIB)
CUT = GpuDevice(B, "1", 1, "A100-40GB", 40960 * MIB, mig=True)
PIECE = GpuDevice("MIG-1", "1_7_0", 1, "A100-40GB", 4864 * MIB, parent=B, profile="1g.5gb", start=0, size=1)


def test_of_a_gpu_that_is_cut_its_instances_are_offered_and_what_is_not_known_is_not():
    assert offers_of(a_sample(WHOLE, CUT, PIECE)) == (OFFERS[A.lower()], INSTANCE)
    assert offers_of(a_sample(replace(WHOLE, memory_bytes=None), CUT, replace(PIECE, start=None))) == ()
    assert offers_of(a_sample(replace(WHOLE, simulated=True))) == ()


def test_each_gpu_has_a_slice_of_its_own_in_one_pool_and_generation():
    bodies = slice_bodies(OfNode("here", "u", "mps", "580.1"), (*OFFERS.values(), replace(INSTANCE, name="mig-2", parent="GPU-c")), 7)
    assert len(bodies) == 3
    pools = {json.dumps(one["spec"]["pool"]) for one in bodies.values()}
    assert [json.loads(one) for one in pools] == [{"name": "here", "generation": 7, "resourceSliceCount": 3}]
    devices = [one for body in bodies.values() for one in body["spec"]["devices"]]
    assert [one.get("allowMultipleAllocations") for one in devices] == [True, True, None]


def test_what_the_server_adds_or_writes_another_way_is_no_difference_and_all_else_is():
    wanted = slice_bodies(OfNode("here", "u", "time"), tuple(OFFERS.values()), 2)
    seen = json.loads(json.dumps(slice_bodies(OfNode("here", "u", "time"), tuple(OFFERS.values()), 1)))
    for one in seen.values():
        one["spec"]["devices"][0]["capacity"]["memory"]["value"] = "40Gi"
        one["spec"]["allNodes"] = False
    assert agree(seen, wanted)
    first = next(iter(seen))
    assert not agree({first: seen[first]}, wanted)
    other = json.loads(json.dumps(seen))
    other[first]["spec"]["pool"]["generation"] = 5
    assert not agree(other, wanted), "two generations in one pool"
    seen[first]["spec"]["devices"][0]["attributes"]["kind"]["string"] = "H200"
    assert not agree(seen, wanted)


def test_a_cluster_that_knows_no_shares_is_told_by_what_it_leaves_out():
    (wanted,) = slice_bodies(OfNode("here", "u", "time"), (OFFERS[A.lower()],), 1).values()
    dropped = json.loads(json.dumps(wanted))
    del dropped["spec"]["devices"][0]["allowMultipleAllocations"]
    assert lacks_shares(dropped, wanted)
    assert not lacks_shares(wanted, wanted)
    (whole,) = slice_bodies(OfNode("here", "u", "time", knows_shares=False), (OFFERS[A.lower()],), 1).values()
    assert not lacks_shares(whole, whole)


async def test_gpus_of_a_driver_that_hangs_are_no_longer_offered_after_a_while(tmp_path):
    (tmp_path / "nvidia.json").write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": A}]}))
    told: list[GpuSample | None] = [a_sample(WHOLE, GpuDevice(B, "1", 1, "A100-40GB", 40960 * MIB))]
    now = [0.0]
    offered = Offered(lambda: told[0], (tmp_path,), clock=lambda: now[0])
    await offered.look()
    assert set(offered.by_name) == {A.lower()}, "no CDI file names the other"
    told[0], now[0] = None, 10.0
    await offered.look()
    assert set(offered.by_name) == {A.lower()}
    now[0] = 20.0
    await offered.look()
    assert not offered.by_name
