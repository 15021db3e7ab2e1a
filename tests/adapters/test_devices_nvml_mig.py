"""GPUs cut by MIG, as the real nvidia-ml-py tells them on the fake library: found in sparse slots, cut anew under us, read at little cost."""
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nvml_child_scene import asking, one_sample, reading, second_sample

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess
from fake_nvml.reader import Reader, readers

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

MIB = 2**20
NO_PERMISSION, UNKNOWN = 4, 999
SM, TENSOR = 2, 5  # GPM's metrics
H200 = FakeGpu("NVIDIA H200", memory_mib=143771, architecture=9, gpm={SM: 81.5})
CUT = FakeGpu(mig=True, instances=(FakeInstance(gi=1, slot=0), FakeInstance(gi=5, slot=4, profile="2g.10gb", start=4, size=2, memory_mib=9856)))
BUSY = replace(CUT, instances=tuple(replace(one, processes=(FakeProcess(100 + one.gi, 300, sm=50, mem=1),)) for one in CUT.instances))
SLOW_S = 5.0


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path)


@pytest.fixture
def opened(fake: FakeNvml) -> Iterator[Callable[[FakeMachine], Reader]]:
    """`sample()` takes one at the second `now_s`, in the reader."""
    with readers(fake) as open_reader:

        def open_nvml(machine: FakeMachine) -> Reader:
            reader = open_reader(machine)
            reader.do("from datetime import UTC, datetime\nfrom gpufairy.devices.nvml import Nvml\nnow_s = 0.0")
            reader.do(f"nvml = Nvml({SLOW_S}, lambda: now_s)\nnvml.open()\nsample = lambda: nvml.sample(datetime.now(UTC))")
            return reader

        yield open_nvml


def labels_told(reader: Reader, at_s: float) -> tuple[list[str], int]:
    """Of the devices in a sample, and how many readings came with them."""
    reader.do(f"now_s = {at_s}\nseen = sample()")
    return tuple(reader.tell("[device.label for device in seen.devices], len(seen.readings)"))


def test_instances_are_found_in_sparse_slots(fake):
    gpu, first, second = one_sample(fake, CUT).devices
    assert gpu.mig
    assert (first.label, first.profile, first.start, first.size, first.memory_bytes) == ("0_1_0", "1g.5gb", 0, 1, 4864 * MIB)
    assert (second.label, second.profile, second.start, second.size, second.memory_bytes) == ("0_5_0", "2g.10gb", 4, 2, 9856 * MIB)
    assert {first.parent, second.parent} == {gpu.uuid}
    assert first.uuid.startswith("MIG-")
    assert first.kind == "A100-40GB"


def test_where_an_instance_lies_may_be_a_secret(fake):
    (_, instance) = one_sample(fake, replace(CUT, instances=CUT.instances[:1], fails={"nvmlDeviceGetGpuInstanceById": NO_PERMISSION})).devices
    assert (instance.profile, instance.start, instance.size) == ("1g.5gb", None, None)


def test_an_instance_has_its_memory_and_its_parent_the_rest(fake):
    sample = one_sample(fake, replace(CUT, instances=(replace(CUT.instances[0], used_mib=77),), power_w=200))
    whole, part = reading(sample), reading(sample, "0_1_0")
    assert (part.memory_used_bytes, part.memory_total_bytes) == (77 * MIB, 4864 * MIB)
    assert (part.power_w, part.temperature_c, part.energy_j, part.sm_clock_hz) == (None, None, None, None)
    assert (part.utilisation, whole.utilisation) == (None, None)
    assert whole.power_w == 200


def test_an_instance_is_as_busy_as_its_sms_by_gpm(fake):
    cut = (FakeInstance(gi=2, slot=1, gpm={SM: 30, TENSOR: 10}), FakeInstance(gi=3, slot=2, gpm={SM: 90}))
    sample = second_sample(fake, replace(H200, mig=True, instances=cut))
    assert (reading(sample, "0_2_0").utilisation, reading(sample, "0_2_0").tensor_active, reading(sample, "0_3_0").utilisation) == (0.3, 0.1, 0.9)


def test_what_two_compute_instances_share_is_neithers_own(fake):
    cut = tuple(FakeInstance(gi=1, ci=ci, slot=ci, profile="1c.2g.35gb", gpm={SM: 30}) for ci in range(2))
    sample = second_sample(fake, replace(H200, mig=True, instances=cut))
    assert [device.label for device in sample.devices] == ["0", "0_1_0", "0_1_1"]
    assert reading(sample, "0_1_0").utilisation is reading(sample, "0_1_1").utilisation is None


def test_a_gpu_cut_anew_is_seen_at_once_when_an_instance_went(fake):
    fake.write(FakeMachine((CUT,)))
    with asking(fake, "--slow", "3600") as child:
        assert len(child.sample().devices) == 3
        fake.write(FakeMachine((replace(CUT, instances=(FakeInstance(gi=9, slot=2, profile="4g.20gb", size=4),)),)))
        sample = child.sample_with(lambda sample: len(sample.devices) == 2)
        assert sample.devices[1].profile == "4g.20gb"
        assert {one.uuid for one in sample.readings} == {device.uuid for device in sample.devices}


def test_an_instance_cut_anew_under_its_old_name_is_seen(fake):
    one = FakeInstance(gi=1, uuid="MIG-same", memory_mib=4864)
    fake.write(FakeMachine((FakeGpu(mig=True, instances=(one,)),)))
    with asking(fake, "--slow", "3600") as child:
        child.sample()
        fake.write(FakeMachine((FakeGpu(mig=True, instances=(replace(one, memory_mib=9856, profile="2g.10gb"),)),)))
        assert child.sample_with(lambda sample: [device.profile for device in sample.devices[1:]] == ["2g.10gb"]).devices[1].memory_bytes == 9856 * MIB


def test_mig_mode_switched_on_is_seen(fake):
    fake.write(FakeMachine((FakeGpu(),)))
    with asking(fake) as child:
        assert not child.sample().devices[0].mig
        fake.write(FakeMachine((CUT,)))
        assert len(child.sample_with(lambda sample: sample.devices[0].mig).devices) == 3


def test_processes_under_mig_are_on_their_instance_and_their_time_is_not_known(fake):
    for gpu in (BUSY, replace(BUSY, hides_instances=True)):
        sample = one_sample(fake, gpu)
        labels = {device.uuid: device.label for device in sample.devices}
        assert sorted((one.pid, labels[one.uuid], one.memory_bytes, one.utilisation) for one in sample.processes) == [
            (101, "0_1_0", 300 * MIB, None), (105, "0_5_0", 300 * MIB, None),
        ]  # fmt: skip


def test_one_process_in_two_instances_is_on_both(fake):
    cut = tuple(replace(one, processes=(FakeProcess(7, one.gi), FakeProcess(7, None, kind="graphics"))) for one in CUT.instances)
    sample = one_sample(fake, replace(CUT, instances=cut))
    assert sorted((one.memory_bytes, one.kind) for one in sample.processes) == [(1 * MIB, "compute"), (5 * MIB, "compute")]


def test_lists_that_cannot_be_read_are_not_empty_ones(fake):
    sample = one_sample(fake, replace(BUSY, fails={"nvmlDeviceGetComputeRunningProcesses": UNKNOWN}), FakeGpu())
    assert [one.processes_known for one in sample.readings] == [False, False, False, True]
    assert all(one.processes_known for one in one_sample(fake, BUSY).readings)


SLOW_CALLS = {  # milliseconds each on an H200, with what a sample between two searches may make of them
    "nvmlDeviceGetMigDeviceHandleByIndex": 0, "nvmlDeviceGetName": 0, "nvmlDeviceGetGpuInstanceById": 0, "nvmlDeviceGetMigMode": 0, "nvmlDeviceGetTotalEnergyConsumption": 0,
    "nvmlDeviceGetMemoryInfo_v2": 4, "nvmlGpmMigSampleGet": 3, "nvmlGpmSampleGet": 1, "nvmlDeviceGetUtilizationRates": 0, "nvmlDeviceGetProcessUtilization": 0,
    "nvmlDeviceGetComputeRunningProcesses_v3": 2, "nvmlDeviceGetGraphicsRunningProcesses_v3": 1, "nvmlDeviceGetMPSComputeRunningProcesses_v3": 1,
}  # fmt: skip


def test_a_sample_of_a_cut_gpu_makes_few_slow_calls(opened, fake: FakeNvml):
    cut = tuple(FakeInstance(gi=gi, slot=gi, gpm={SM: 30}, processes=(FakeProcess(gi),)) for gi in range(1, 4))
    reader = opened(FakeMachine((replace(H200, mig=True, instances=cut),), counts_calls=True))
    assert labels_told(reader, 0.0) == (["0", "0_1_0", "0_2_0", "0_3_0"], 4)
    assert fake.calls()["nvmlDeviceGetMigDeviceHandleByIndex"] == 7
    assert labels_told(reader, SLOW_S - 0.1) == (["0", "0_1_0", "0_2_0", "0_3_0"], 4)
    called = fake.calls()
    # One of the two lists of those that compute says how long it is. It is the GPU's own, which takes no time.
    assert {name: called[name] for name in SLOW_CALLS} == SLOW_CALLS


def test_a_new_instance_beside_old_ones_is_seen_after_five_seconds(opened, fake: FakeNvml):
    reader = opened(FakeMachine((CUT,)))
    labels_told(reader, 0.0)
    fake.write(FakeMachine((replace(CUT, instances=(*CUT.instances, FakeInstance(gi=3, slot=6, start=1))),)))
    assert labels_told(reader, SLOW_S - 0.1) == (["0", "0_1_0", "0_5_0"], 3)
    assert labels_told(reader, SLOW_S) == (["0", "0_1_0", "0_5_0", "0_3_0"], 4)


def test_an_instance_that_went_is_told_of_no_more_and_looked_for_at_once(opened, fake: FakeNvml):
    reader = opened(FakeMachine((BUSY,)))
    labels_told(reader, 0.0)
    fresh = FakeInstance(gi=9, slot=2, profile="4g.20gb", size=4, processes=(FakeProcess(5),))
    fake.write(FakeMachine((replace(BUSY, instances=(BUSY.instances[0], fresh)),)))
    assert labels_told(reader, 1.0) == (["0", "0_1_0"], 2)
    assert reader.tell("[process.pid for process in seen.processes]") == [101]
    assert labels_told(reader, 1.1) == (["0", "0_1_0", "0_9_0"], 3)
    assert reader.tell("[process.pid for process in seen.processes]") == [101, 5]


def test_an_instance_cut_anew_has_no_figure_from_before(opened, fake: FakeNvml):
    old = FakeInstance(gi=1, uuid="MIG-same", gpm={SM: 30})
    reader = opened(FakeMachine((replace(H200, mig=True, instances=(old,)),)))
    for at_s in (0.0, 0.1):
        labels_told(reader, at_s)
    assert reader.tell("seen.readings[1].sm_active") == 0.3
    fake.write(FakeMachine((replace(H200, mig=True, instances=(replace(old, memory_mib=9856),)),)))
    assert labels_told(reader, 0.2) == (["0"], 1)
    assert labels_told(reader, 0.3) == (["0", "0_1_0"], 2)
    assert reader.tell("seen.readings[1].sm_active, seen.readings[1].memory_total_bytes") == [None, 9856 * MIB]


def test_mig_switched_off_under_us_leaves_the_whole_gpu(opened, fake: FakeNvml):
    reader = opened(FakeMachine((CUT,)))
    labels_told(reader, 0.0)
    fake.write(FakeMachine((FakeGpu(processes=(FakeProcess(5),)),)))
    assert labels_told(reader, 0.1) == (["0"], 1)
    assert labels_told(reader, 0.2) == (["0"], 1)
    assert reader.tell("seen.devices[0].mig, [process.pid for process in seen.processes]") == [False, [5]]


def test_an_instance_whose_memory_was_never_told_is_still_there(opened):
    reader = opened(FakeMachine((replace(BUSY, fails={"nvmlDeviceGetMemoryInfo": NO_PERMISSION}),), counts_calls=True))
    for at_s in (0.0, 0.1):
        assert labels_told(reader, at_s) == (["0", "0_1_0", "0_5_0"], 3)
