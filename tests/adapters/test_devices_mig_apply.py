"""Cutting GPUs by MIG through the real nvidia-ml-py on the fake library: done, refused, undone, and finished after a kill in any phase."""
import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Gpu
from gpufairy.devices.mig_order import CutOrder, Outcome, order_from_plain, order_to_plain
from gpufairy.devices.mig_scissors import NvmlScissors
from gpufairy.devices.mig_simulated import SimulatedScissors
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.devices.nvidia import found_nvidia
from gpufairy.devices.simulated import parse_simulate

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

NO_PERMISSION, INSUFFICIENT_RESOURCES = 4, 23
UUID = "GPU-aa"
SMALL = tuple(FakeInstance(gi=n + 1, slot=n, start=n, uuid=f"MIG-{n}") for n in range(3))
A100 = FakeGpu(uuid=UUID, mig=True, instances=SMALL)
H200 = FakeGpu("NVIDIA H200", memory_mib=143771, architecture=9, uuid=UUID)
GPU = Gpu(0, UUID, "A100-40GB", 40960 * 2**20, mig=mig_tables()["A100-40GB"])
OLD = tuple(MigInstance("1g.5gb", one.start, 1, one.uuid) for one in SMALL)
NEW = MigInstance("3g.20gb", 0, 4, "")
ORDER = CutOrder(UUID, destroy=OLD, create=(NEW, MigInstance("2g.10gb", 4, 2, "")))


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path)


def nobody(_one: MigInstance) -> str:
    return ""


def scissors(fake: FakeNvml, limit_s: float = 20.0) -> NvmlScissors:
    return NvmlScissors(fake.env, limit_s)


def cut(fake: FakeNvml, order: CutOrder = ORDER, held_by: Callable[[MigInstance], str] = nobody, limit_s: float = 20.0):
    return asyncio.run(scissors(fake, limit_s).cut(GPU, order, held_by))


def places(instances) -> list[tuple[str, int, int]]:
    return [(one.profile, one.start, one.size) for one in instances]


AFTER = [("3g.20gb", 0, 4), ("2g.10gb", 4, 2)]
BEFORE = places(OLD)


def test_the_driver_tells_profiles_and_where_they_may_begin(fake):
    fake.write(FakeMachine((A100,)))
    seen = asyncio.run(scissors(fake).look(GPU))
    table = mig_tables()["A100-40GB"]
    assert (seen.table.compute_slices, seen.table.memory_slices, seen.mode) == (7, 8, True)
    assert {one.name: (one.compute_slices, one.size, one.starts) for one in seen.table.profiles} == {
        one.name: (one.compute_slices, one.size, one.starts) for one in table.profiles
    }
    assert seen.instances == OLD


def test_a_gpu_is_cut_anew_and_the_new_uuids_are_told(fake):
    fake.write(FakeMachine((A100,)))
    done = cut(fake)
    assert (done.outcome, places(done.seen.instances)) == (Outcome.DONE, AFTER)
    assert all(one.uuid.startswith("MIG-") for one in done.seen.instances)
    (gpu,) = found_nvidia(fake.env).gpus
    assert gpu.instances == done.seen.instances


def test_the_same_order_twice_is_done_once(fake):
    fake.write(FakeMachine((A100,)))
    first = cut(fake)
    asked: list[MigInstance] = []
    again = cut(fake, held_by=lambda one: asked.append(one) or "")
    assert (again, asked) == (first, [])


def test_an_instance_that_somebody_holds_stays_and_all_is_as_it_was(fake):
    fake.write(FakeMachine((A100,)))
    done = cut(fake, held_by=lambda one: "kim holds it" if one.start == 2 else "")
    assert done.outcome is Outcome.UNDONE
    assert "kim holds it" in done.why
    assert places(done.seen.instances) == BEFORE
    assert done.seen.instances[2].uuid == "MIG-2"


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("kind", ["compute", "graphics", "mps"])
def test_an_instance_with_a_process_on_it_stays_though_nobody_holds_it(fake, kind, hides):
    busy = replace(SMALL[1], processes=(FakeProcess(4242, kind=kind),))
    fake.write(FakeMachine((replace(A100, instances=(SMALL[0], busy, SMALL[2]), hides_instances=hides),)))
    done = cut(fake)
    assert done.outcome is Outcome.UNDONE
    assert "1g.5gb at slice 1 of GPU-aa is in use by process 4242" in done.why
    assert places(done.seen.instances) == BEFORE
    assert done.seen.instances[1].uuid == "MIG-1"


def test_an_instance_of_which_nobody_can_tell_who_is_on_it_stays(fake):
    fake.write(FakeMachine((replace(A100, fails={"nvmlDeviceGetComputeRunningProcesses": 999}),)))
    done = cut(fake)
    assert (done.outcome, places(done.seen.instances)) == (Outcome.UNDONE, BEFORE)
    assert "cannot be read" in done.why


def test_what_the_driver_refuses_is_undone(fake):
    fake.write(FakeMachine((replace(A100, refuses_cut="2g.10gb@4"),)))
    done = cut(fake)
    assert done.outcome is Outcome.UNDONE
    assert "cutting 2g.10gb at slice 4 on GPU-aa: the driver says Insufficient Resources" in done.why
    assert places(done.seen.instances) == BEFORE


def test_what_cannot_be_undone_either_is_told_as_it_is(fake):
    fake.write(FakeMachine((replace(A100, fails={"nvmlDeviceCreateGpuInstanceWithPlacement": INSUFFICIENT_RESOURCES}),)))
    done = cut(fake)
    assert (done.outcome, done.seen.instances) == (Outcome.HALF, ())
    assert "could not be undone" in done.why


def test_only_root_may_cut_and_that_is_said(fake):
    fake.write(FakeMachine((replace(A100, fails={"nvmlComputeInstanceDestroy": NO_PERMISSION}),)))
    done = cut(fake)
    assert (done.outcome, places(done.seen.instances)) == (Outcome.UNDONE, BEFORE)
    assert "only root" in done.why


def test_a_gpu_that_the_driver_does_not_know_is_an_error_in_words(fake):
    fake.write(FakeMachine((replace(A100, uuid="GPU-other"),)))
    with pytest.raises(EngineRefused, match="knows no GPU GPU-aa"):
        cut(fake)


def test_a_gpu_that_has_no_mig_is_an_error_in_words(fake):
    fake.write(FakeMachine((FakeGpu("NVIDIA L40S", architecture=8, uuid=UUID),)))
    with pytest.raises(EngineRefused, match="names no MIG profile"):
        cut(fake)


def test_hopper_switches_mig_mode_on_and_off_by_itself(fake):
    fake.write(FakeMachine((H200,)))
    made = (MigInstance("3g.71gb", 4, 4, ""),)
    on = cut(fake, CutOrder(UUID, create=made, mode=True))
    assert (on.outcome, on.seen.mode, places(on.seen.instances)) == (Outcome.DONE, True, [("3g.71gb", 4, 4)])
    off = cut(fake, CutOrder(UUID, destroy=on.seen.instances, mode=False))
    assert (off.outcome, off.seen.mode, off.seen.instances) == (Outcome.DONE, False, ())


def test_ampere_needs_a_reset_for_that_and_is_told_so(fake):
    fake.write(FakeMachine((FakeGpu(uuid=UUID),)))
    done = cut(fake, CutOrder(UUID, create=(NEW,), mode=True))
    assert (done.outcome, done.seen.mode) == (Outcome.RESET, False)
    assert "needs a reset" in done.why


def test_mig_mode_stays_off_while_anybody_is_on_the_gpu(fake):
    fake.write(FakeMachine((replace(H200, processes=(FakeProcess(77),)),)))
    done = cut(fake, CutOrder(UUID, create=(MigInstance("7g.141gb", 0, 8, ""),), mode=True))
    assert (done.outcome, done.seen.mode) == (Outcome.UNDONE, False)
    assert "in use by process 77" in done.why


def test_mode_is_switched_back_when_the_cut_fails(fake):
    fake.write(FakeMachine((replace(H200, refuses_cut="7g.141gb@0"),)))
    done = cut(fake, CutOrder(UUID, create=(MigInstance("7g.141gb", 0, 8, ""),), mode=True))
    assert (done.outcome, done.seen.mode) == (Outcome.UNDONE, False)


def test_compute_instances_of_one_gpu_instance_go_together(fake):
    parts = tuple(FakeInstance(gi=1, ci=n, slot=n, profile="1c.3g.20gb", size=4, uuid=f"MIG-c{n}") for n in range(3))
    fake.write(FakeMachine((replace(A100, instances=parts),)))
    gone = tuple(MigInstance("1c.3g.20gb", 0, 4, one.uuid) for one in parts)
    done = cut(fake, CutOrder(UUID, destroy=gone, create=(MigInstance("4g.20gb", 0, 4, ""),)))
    assert (done.outcome, places(done.seen.instances)) == (Outcome.DONE, [("4g.20gb", 0, 4)])


def test_a_driver_that_hangs_costs_a_limit_and_is_told(fake):
    fake.write(FakeMachine((A100,), hang=("nvmlGpuInstanceDestroy",)))
    with pytest.raises(EngineSilent, match="NVML call hung"):
        cut(fake, limit_s=3.0)


PHASES = (
    "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy", "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance",
)  # fmt: skip


async def kill_in(fake: FakeNvml, phase: str) -> None:
    """The child is stuck in that call, the third time at most, and is killed there."""
    fake.write(FakeMachine((A100,), hang=(phase,), counts_calls=True))
    fake.calls()
    cutting = asyncio.create_task(scissors(fake, 60.0).cut(GPU, ORDER, nobody))
    seen = fake.calls()
    while not seen[phase]:
        await asyncio.sleep(0.02)
        seen += fake.calls()
        assert not cutting.done()
    (pid,) = children()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EngineSilent, match="ended in the middle"):
        await cutting


def children() -> list[int]:
    task = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in task.read_text().split() if "mig_apply" in Path(f"/proc/{pid}/cmdline").read_text()]


@pytest.mark.parametrize("phase", PHASES)
def test_after_a_kill_in_any_phase_the_order_is_finished(fake, phase):
    asyncio.run(kill_in(fake, phase))
    fake.write(FakeMachine((A100,)), keep_cut=True)
    done = cut(fake, order_from_plain(order_to_plain(ORDER)))
    assert (done.outcome, places(done.seen.instances)) == (Outcome.DONE, AFTER)
    assert all(one.uuid for one in done.seen.instances)


@pytest.mark.parametrize("phase", PHASES)
def test_after_a_kill_in_any_phase_what_cannot_be_finished_is_undone(fake, phase):
    asyncio.run(kill_in(fake, phase))
    fake.write(FakeMachine((replace(A100, refuses_cut="2g.10gb@4"),)), keep_cut=True)
    done = cut(fake)
    assert (done.outcome, places(done.seen.instances)) == (Outcome.UNDONE, BEFORE)
    assert all(one.uuid for one in done.seen.instances)


def test_simulated_gpus_are_cut_the_same_way_and_stay_so(tmp_path):
    (gpu,) = parse_simulate("1xA100:mig=1g.5gb+1g.5gb")
    simulated = SimulatedScissors(tmp_path / "mig" / "simulated.json")
    order = CutOrder(gpu.uuid, destroy=gpu.instances, create=(NEW,))
    done = asyncio.run(simulated.cut(gpu, order, nobody))
    assert (done.outcome, places(done.seen.instances)) == (Outcome.DONE, [("3g.20gb", 0, 4)])
    again = SimulatedScissors(tmp_path / "mig" / "simulated.json")
    assert asyncio.run(again.look(gpu)) == done.seen
    assert asyncio.run(again.cut(gpu, order, nobody)) == done
    (other,) = parse_simulate("1xA100:mig=7g.40gb")
    assert places(asyncio.run(again.look(other)).instances) == [("7g.40gb", 0, 8)]


def test_a_simulated_instance_that_is_held_stays(tmp_path):
    (gpu,) = parse_simulate("1xA100:mig=1g.5gb+1g.5gb")
    simulated = SimulatedScissors(tmp_path / "simulated.json")
    done = asyncio.run(simulated.cut(gpu, CutOrder(gpu.uuid, destroy=gpu.instances, create=(NEW,)), lambda one: "kim holds it"))
    assert (done.outcome, done.seen.instances, done.why) == (Outcome.UNDONE, gpu.instances, "kim holds it")
