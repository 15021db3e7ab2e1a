"""GPUs cut by MIG on the fake NVML, through the real nvidia-ml-py: sparse slots, instances, GPM, and a re-cut under a reader."""
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess
from fake_nvml.reader import Reader, readers

pytestmark = pytest.mark.slow  # built with a compiler, asked in processes of their own

MIB = 1024 * 1024
INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, VERSION_MISMATCH = 2, 3, 6, 25
NO_INSTANCE = 0xFFFFFFFF
HOPPER = 9
CUT = FakeGpu(
    mig=True,
    processes=(),
    instances=(
        FakeInstance(gi=7, slot=0, used_mib=10, processes=(FakeProcess(11, 8),)),
        FakeInstance(gi=9, slot=2, profile="1c.3g.20gb", start=4, size=4, memory_mib=19968, used_mib=500, processes=(FakeProcess(12, 300),)),
        FakeInstance(gi=9, ci=1, slot=3, profile="2c.3g.20gb", start=4, size=4, processes=(FakeProcess(13, 200, kind="graphics"),)),
    ),
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path)


@pytest.fixture
def opened(fake: FakeNvml) -> Iterator[Callable[[FakeMachine], Reader]]:
    with readers(fake) as open_reader:
        yield open_reader


def test_mig_devices_are_in_sparse_slots(opened):
    reader = opened(FakeMachine((CUT,)))
    assert reader.tell("nvmlDeviceGetMigMode(gpu), nvmlDeviceGetMaxMigDeviceCount(gpu)") == [[1, 1], 7]
    codes = [reader.code(f"nvmlDeviceGetMigDeviceHandleByIndex(gpu, {slot})") for slot in range(8)]
    assert codes == [0, NOT_FOUND, 0, 0, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND]


def test_a_mig_device_knows_its_place(opened):
    reader = opened(FakeMachine((FakeGpu(), CUT)))
    reader.do("whole = nvmlDeviceGetHandleByIndex(1)\ncut = nvmlDeviceGetMigDeviceHandleByIndex(whole, 2)")
    assert reader.tell("nvmlDeviceGetName(cut), nvmlDeviceGetGpuInstanceId(cut), nvmlDeviceGetComputeInstanceId(cut)") == ["NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 9, 0]
    assert reader.tell("nvmlDeviceGetIndex(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(cut)), nvmlDeviceIsMigDeviceHandle(cut).value, nvmlDeviceIsMigDeviceHandle(gpu).value") == [1, 1, 0]
    assert reader.tell("nvmlDeviceGetUUID(nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(cut))) == nvmlDeviceGetUUID(cut)")
    attributes = reader.tell("nvmlDeviceGetAttributes_v2(cut)")
    assert (attributes["gpuInstanceSliceCount"], attributes["computeInstanceSliceCount"], attributes["memorySizeMB"]) == (3, 1, 19968)
    assert reader.code("nvmlDeviceGetGpuInstanceId(whole)") == INVALID_ARGUMENT


def test_a_gpu_instance_has_a_placement_and_a_profile(opened):
    reader = opened(FakeMachine((CUT,)))
    reader.do("part = nvmlDeviceGetGpuInstanceById(gpu, 9)\nseen = nvmlGpuInstanceGetInfo(part)\nprofile = nvmlDeviceGetGpuInstanceProfileInfoById(gpu, seen.profileId)")
    assert reader.tell("seen.id, seen.profileId, seen.placement.start, seen.placement.size") == [9, 9, 4, 4]
    assert reader.tell("profile.name, profile.sliceCount") == ["MIG 3g.20gb", 3]
    assert reader.tell("nvmlDeviceGetGpuInstanceProfileInfo(gpu, NVML_GPU_INSTANCE_PROFILE_1_SLICE).name") == "MIG 1g.5gb"
    assert reader.tell("nvmlComputeInstanceGetInfo(nvmlGpuInstanceGetComputeInstanceById(part, 1)).id") == 1
    assert reader.code("nvmlDeviceGetGpuInstanceById(gpu, 1)") == NOT_FOUND
    reader.do("parts = (c_nvmlGpuInstance_t * 7)()\ncount = c_uint()\nnvmlDeviceGetGpuInstances(gpu, 9, parts, byref(count))")
    assert reader.tell("count.value, nvmlGpuInstanceGetInfo(parts[0]).id") == [1, 9]


def test_memory_under_mig_is_the_gpu_instances(opened):
    reader = opened(FakeMachine((replace(CUT, used_mib=700),)))
    reader.do("cuts = [nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot) for slot in (0, 2, 3)]")
    assert reader.tell("[nvmlDeviceGetMemoryInfo(cut).used for cut in cuts]") == [10 * MIB, 500 * MIB, 500 * MIB]
    assert reader.tell("[nvmlDeviceGetMemoryInfo(cut, nvmlMemory_v2).total for cut in cuts]") == [4864 * MIB, 19968 * MIB, 19968 * MIB]
    assert reader.tell("nvmlDeviceGetMemoryInfo(gpu).used") == 700 * MIB


def test_processes_under_mig_are_on_the_instance_and_on_the_parent(opened):
    reader = opened(FakeMachine((CUT,)))
    reader.do("cuts = [nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot) for slot in (0, 2, 3)]")
    assert reader.tell("[[found.pid for found in nvmlDeviceGetComputeRunningProcesses(cut)] for cut in cuts]") == [[11], [12], []]
    assert reader.tell("[found.pid for found in nvmlDeviceGetGraphicsRunningProcesses(cuts[2])]") == [13]
    assert reader.tell("[(found.pid, found.gpuInstanceId, found.computeInstanceId) for found in nvmlDeviceGetComputeRunningProcesses(gpu)]") == [[11, 7, 0], [12, 9, 0]]


def test_a_driver_may_not_say_in_which_instance_a_process_is(opened):
    reader = opened(FakeMachine((replace(CUT, hides_instances=True),)))
    reader.do("cut = nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)")
    where = "[(found.pid, found.gpuInstanceId) for found in nvmlDeviceGetComputeRunningProcesses({})]"
    assert reader.tell(where.format("gpu")) == [[11, NO_INSTANCE], [12, NO_INSTANCE]]
    assert reader.tell(where.format("cut")) == [[11, 7]]


@pytest.mark.parametrize(
    ("call", "code"),
    [("PowerUsage({})", NOT_SUPPORTED), ("UtilizationRates({})", NOT_SUPPORTED), ("TotalEnergyConsumption({})", NOT_SUPPORTED), ("ClockInfo({}, 1)", NOT_SUPPORTED),
     ("Temperature({}, 0)", INVALID_ARGUMENT), ("ProcessUtilization({}, 0)", INVALID_ARGUMENT), ("FieldValues({}, [1])", INVALID_ARGUMENT)],
)
def test_an_instance_has_none_of_the_whole_gpus_numbers(opened, call: str, code: int):
    reader = opened(FakeMachine((CUT,)))
    reader.do("cut = nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)")
    assert reader.code("nvmlDeviceGet" + call.format("cut")) == code


def test_rows_that_were_replaced_are_not_told_under_mig(opened):
    reader = opened(FakeMachine((CUT,)))
    assert reader.code("nvmlDeviceGetRemappedRows(gpu)") == NOT_SUPPORTED
    assert reader.tell("[field.nvmlReturn for field in nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_POWER_INSTANT])]") == [NOT_SUPPORTED, NOT_SUPPORTED, 0]


def test_a_cut_gpu_has_power_and_no_utilisation(opened):
    reader = opened(FakeMachine((CUT,)))
    assert reader.tell("nvmlDeviceGetPowerUsage(gpu)") == 60000
    assert [reader.code(f"nvmlDeviceGet{call}") for call in ("UtilizationRates(gpu)", "ProcessUtilization(gpu, 0)", "EncoderUtilization(gpu)")] == [NOT_SUPPORTED] * 3


METRICS = """
def metrics(take, wanted, version=NVML_GPM_METRICS_GET_VERSION):
    query = c_nvmlGpmMetricsGet_t(version=version, numMetrics=len(wanted))
    query.sample1, query.sample2 = take(nvmlGpmSampleAlloc()), take(nvmlGpmSampleAlloc())
    for at, metric in enumerate(wanted):
        query.metrics[at].metricId = metric
    nvmlGpmMetricsGet(query)
    told = [(each.nvmlReturn, each.value) for each in query.metrics[:len(wanted)]]
    nvmlGpmSampleFree(query.sample1), nvmlGpmSampleFree(query.sample2)
    return told
"""


def test_gpm_tells_the_whole_gpu_and_each_instance(opened):
    instances = (FakeInstance(gi=3, slot=1, gpm={2: 77.5}), FakeInstance(gi=5, slot=4))
    reader = opened(FakeMachine((FakeGpu(architecture=HOPPER, gpm={2: 50.0, 10: 12.25}, mig=True, instances=instances),)))
    reader.do(METRICS)
    assert reader.tell("nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice") == 1
    assert reader.tell("metrics(lambda sample: nvmlGpmSampleGet(gpu, sample), (2, 10, 5))") == [[0, 50.0], [0, 12.25], [NOT_SUPPORTED, 0.0]]
    assert reader.tell("metrics(lambda sample: nvmlGpmMigSampleGet(gpu, 3, sample), (2,))") == [[0, 77.5]]
    assert reader.tell("metrics(lambda sample: nvmlGpmSampleGet(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1), sample), (2,))") == [[0, 77.5]]
    assert reader.code("nvmlGpmMigSampleGet(gpu, 5, nvmlGpmSampleAlloc())") == NOT_SUPPORTED
    assert reader.code("nvmlGpmMigSampleGet(gpu, 4, nvmlGpmSampleAlloc())") == INVALID_ARGUMENT
    assert reader.code("metrics(lambda sample: nvmlGpmSampleGet(gpu, sample), (2,), version=9)") == VERSION_MISMATCH
    assert reader.code("metrics(lambda sample: sample, (2,))") == INVALID_ARGUMENT


def test_a_gpu_without_gpm_says_so(opened):
    reader = opened(FakeMachine((FakeGpu(),)))
    assert reader.tell("nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice") == 0
    assert reader.code("nvmlGpmSampleGet(gpu, nvmlGpmSampleAlloc())") == NOT_SUPPORTED


def test_a_re_cut_leaves_old_handles_of_nothing_and_keeps_those_that_stayed(opened, fake: FakeNvml):
    stays, goes = FakeInstance(gi=7, slot=0), FakeInstance(gi=9, slot=1, start=1)
    reader = opened(FakeMachine((FakeGpu(mig=True, instances=(stays, goes)),)))
    reader.do("old, gone = [nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot) for slot in (0, 1)]")
    fresh = FakeInstance(gi=9, slot=1, profile="2g.10gb", start=2, size=2)
    fake.write(FakeMachine((FakeGpu(mig=True, instances=(replace(stays, slot=4, used_mib=9), fresh)),)))
    assert reader.code("nvmlDeviceGetUUID(gone)") == INVALID_ARGUMENT
    assert reader.tell("nvmlDeviceGetMemoryInfo(old).used") == 9 * MIB
    assert reader.tell("nvmlDeviceGetName(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1))") == "NVIDIA A100-SXM4-40GB MIG 2g.10gb"
    fake.write(FakeMachine((FakeGpu(),)))
    assert reader.code("nvmlDeviceGetUUID(old)") == INVALID_ARGUMENT
    assert reader.tell("nvmlDeviceGetMigMode(gpu)") == [0, 0]


MAKE = """
def make(profile, start, size):
    place = c_nvmlGpuInstancePlacement_t(start, size)
    return nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, byref(place))
"""
IN_USE, INSUFFICIENT_RESOURCES = 19, 23


def test_a_cut_by_one_process_is_seen_by_all(opened, fake: FakeNvml):
    one = opened(FakeMachine((FakeGpu(mig=True),)))
    other = Reader({**os.environ, **fake.env})
    try:
        other.do("nvmlInit()\ngpu = nvmlDeviceGetHandleByIndex(0)")
        one.do(MAKE + "part = make(9, 4, 4)")
        assert other.code("nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)") == NOT_FOUND  # nobody can compute on it yet
        one.do("nvmlGpuInstanceCreateComputeInstance(part, 2)")
        assert other.tell("nvmlDeviceGetName(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0))") == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
        assert one.code("nvmlGpuInstanceDestroy(part)") == IN_USE  # its compute instance goes first
        one.do("nvmlComputeInstanceDestroy(nvmlGpuInstanceGetComputeInstanceById(part, 0))\nnvmlGpuInstanceDestroy(part)")
        assert other.code("nvmlDeviceGetGpuInstanceById(gpu, 1)") == NOT_FOUND
    finally:
        other.close()


def test_places_are_kept_apart_and_begin_where_they_may(opened):
    reader = opened(FakeMachine((FakeGpu(mig=True),)))
    reader.do(MAKE + "make(9, 0, 4)")
    assert reader.code("make(19, 3, 1)") == INSUFFICIENT_RESOURCES
    assert reader.code("make(9, 2, 4)") == INVALID_ARGUMENT
    assert reader.code("make(19, 4, 1)") == 0


def test_only_an_empty_hopper_switches_mig_mode_at_once(opened):
    reader = opened(FakeMachine((FakeGpu("NVIDIA H200", architecture=HOPPER), FakeGpu())))
    assert reader.tell("nvmlDeviceSetMigMode(gpu, 1), nvmlDeviceGetMigMode(gpu)") == [0, [1, 1]]
    reader.do(MAKE + "make(19, 0, 1)")
    assert reader.code("nvmlDeviceSetMigMode(gpu, 0)") == IN_USE
    reader.do("ampere = nvmlDeviceGetHandleByIndex(1)")
    assert reader.tell("nvmlDeviceSetMigMode(ampere, 1), nvmlDeviceGetMigMode(ampere)") == [16, [0, 1]]
