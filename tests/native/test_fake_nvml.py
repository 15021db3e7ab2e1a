"""The fake NVML, through the real nvidia-ml-py: each family of calls, MIG, faults, and a script replaced under a reader."""
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fake_nvml
from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess, FakeXid
from fake_nvml.reader import NvmlFailed, Reader, readers
from fake_nvml.record import compare

pytestmark = pytest.mark.slow  # built with a compiler, asked in processes of their own

MIB = 1024 * 1024
INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, TIMEOUT = 2, 3, 6, 7, 9, 10
FUNCTION_NOT_FOUND, GPU_IS_LOST, VERSION_MISMATCH = 13, 15, 25
NO_INSTANCE = 0xFFFFFFFF
FOLDER = Path(fake_nvml.__file__).parent
GPM = dict.fromkeys(range(1, 14), 12.5)
H200 = FakeGpu(name="NVIDIA H200", architecture=9, memory_mib=143771, memory_temperature_c=41, gpm=GPM, power_limit_w=700.0)
H200_CUT = replace(
    H200,
    mig=True,
    instances=(
        FakeInstance(gi=2, slot=0, profile="3g.71gb", start=4, size=4, memory_mib=71424, used_mib=496, gpm=GPM, processes=(FakeProcess(1720, 444),)),
        FakeInstance(gi=7, slot=1, profile="1g.18gb", start=0, memory_mib=16384, used_mib=15, gpm=GPM),
        FakeInstance(gi=8, slot=2, profile="1g.18gb", start=1, memory_mib=16384, used_mib=15, gpm=GPM),
    ),
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path)


@pytest.fixture
def opened(fake: FakeNvml) -> Iterator[Callable[[FakeMachine], Reader]]:
    with readers(fake) as open_reader:
        yield open_reader


@pytest.fixture
def one(opened: Callable[[FakeMachine], Reader]) -> Callable[..., Reader]:
    return lambda **facts: opened(FakeMachine((FakeGpu(**facts),)))


def test_the_machine_and_its_gpus_are_named(opened):
    reader = opened(FakeMachine((FakeGpu(), FakeGpu(name="NVIDIA H200", uuid="GPU-2", architecture=9)), driver="570.1", cuda=12080))
    assert reader.tell("nvmlSystemGetDriverVersion(), nvmlSystemGetCudaDriverVersion(), nvmlSystemGetNVMLVersion(), nvmlDeviceGetCount()") == ["570.1", 12080, "12.570.1", 2]
    reader.do("second = nvmlDeviceGetHandleByUUID('GPU-2')")
    assert reader.tell("nvmlDeviceGetIndex(second), nvmlDeviceGetName(second), nvmlDeviceGetArchitecture(second)") == [1, "NVIDIA H200", 9]
    assert reader.tell("nvmlDeviceGetCudaComputeCapability(gpu), nvmlDeviceGetCudaComputeCapability(second), nvmlDeviceGetBrand(gpu)") == [[8, 0], [9, 0], 14]
    assert reader.tell("nvmlDeviceGetPciInfo(second).busId, nvmlDeviceGetPciInfo(second).busIdLegacy") == ["00000000:02:00.0", "0000:02:00.0"]
    assert reader.tell("nvmlDeviceGetUUID(nvmlDeviceGetHandleByPciBusId('0000:02:00.0'))") == "GPU-2"
    assert reader.tell("nvmlDeviceGetMinorNumber(gpu), nvmlDeviceGetPersistenceMode(gpu), nvmlDeviceGetComputeMode(gpu)") == [0, 1, 0]
    assert all(reader.tell("nvmlDeviceGetSerial(gpu), nvmlDeviceGetVbiosVersion(gpu), nvmlDeviceGetBoardId(gpu)"))


def test_a_uuid_is_made_from_the_index_and_stays(opened):
    machine = FakeMachine((FakeGpu(), FakeGpu()))
    reader = opened(machine)
    made = [gpu.uuid for gpu in machine.named().gpus]
    assert reader.tell("[nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(at)) for at in range(2)]") == made
    assert len(set(made)) == 2


@pytest.mark.parametrize(
    ("call", "code"),
    [("nvmlDeviceGetHandleByIndex(2)", INVALID_ARGUMENT), ("nvmlDeviceGetHandleByUUID('GPU-9')", NOT_FOUND), ("nvmlDeviceGetHandleByPciBusId('0000:77:00.0')", NOT_FOUND),
     ("nvmlDeviceGetName(None)", INVALID_ARGUMENT), ("nvmlDeviceGetName(cast(64, c_nvmlDevice_t))", INVALID_ARGUMENT)],
)
def test_what_is_not_there_is_refused(one, call: str, code: int):
    assert one().code(call) == code


def test_errors_have_the_drivers_words(one):
    assert one().tell("nvmlErrorString(15), nvmlErrorString(3), nvmlErrorString(12345)") == ["GPU is lost", "Not Supported", "Unknown Error"]


def test_memory_is_told_by_both_layouts(one):
    reader = one(memory_mib=1000, used_mib=300, reserved_mib=50)
    assert reader.tell("nvmlDeviceGetMemoryInfo(gpu)") == {"total": 1000 * MIB, "free": 650 * MIB, "used": 350 * MIB}
    newer = reader.tell("nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2)")
    assert (newer["used"], newer["reserved"], newer["free"]) == (300 * MIB, 50 * MIB, 650 * MIB)
    assert reader.code("nvmlDeviceGetMemoryInfo(gpu, 0x01000028)") == FUNCTION_NOT_FOUND  # of all calls this one alone
    assert reader.tell("nvmlDeviceGetBAR1MemoryInfo(gpu).bar1Total") > 0


def test_a_gpus_numbers_are_the_scripts(one):
    reader = one(utilisation=85, memory_utilisation=60, power_w=312.5, power_limit_w=400, energy_j=12345.678, temperature_c=71, fan=40, sm_clock_mhz=1410)
    assert reader.tell("nvmlDeviceGetUtilizationRates(gpu)") == {"gpu": 85, "memory": 60}
    assert reader.tell("nvmlDeviceGetPowerUsage(gpu), nvmlDeviceGetPowerManagementLimit(gpu), nvmlDeviceGetEnforcedPowerLimit(gpu)") == [312500, 400000, 400000]
    assert reader.tell("nvmlDeviceGetTotalEnergyConsumption(gpu)") == 12345678
    assert reader.tell("nvmlDeviceGetTemperature(gpu, 0), nvmlDeviceGetTemperatureV(gpu, 0), nvmlDeviceGetTemperatureThreshold(gpu, 1)") == [71, 71, 92]
    assert reader.tell("nvmlDeviceGetFanSpeed(gpu), nvmlDeviceGetFanSpeed_v2(gpu, 0), nvmlDeviceGetNumFans(gpu)") == [40, 40, 1]
    assert reader.tell("[nvmlDeviceGetClockInfo(gpu, kind) for kind in range(4)]") == [1410, 1410, 1215, 1410]
    assert reader.tell("nvmlDeviceGetMaxClockInfo(gpu, 1), nvmlDeviceGetPerformanceState(gpu), nvmlDeviceGetEncoderUtilization(gpu)[0]") == [1410, 0, 0]


def test_faults_of_the_card_are_told(one):
    reader = one(throttle=0x44, ecc_corrected=3, ecc_uncorrected=1, remapped=(5, 2, 1, 0))
    assert reader.tell("nvmlDeviceGetCurrentClocksThrottleReasons(gpu), nvmlDeviceGetCurrentClocksEventReasons(gpu)") == [0x44, 0x44]
    assert reader.tell("nvmlDeviceGetSupportedClocksEventReasons(gpu) & 0x44") == 0x44
    assert reader.tell("nvmlDeviceGetTotalEccErrors(gpu, 0, 0), nvmlDeviceGetTotalEccErrors(gpu, 1, 0), nvmlDeviceGetEccMode(gpu)") == [3, 1, [1, 1]]
    assert reader.tell("nvmlDeviceGetRemappedRows(gpu)") == [5, 2, 1, 0]
    assert reader.code("nvmlDeviceGetRetiredPages(gpu, 0)") == NOT_SUPPORTED


def test_what_a_card_does_not_have_is_not_supported(one):
    reader = one(name="NVIDIA GeForce RTX 3090")
    for call in ("nvmlDeviceGetFanSpeed(gpu)", "nvmlDeviceGetEccMode(gpu)", "nvmlDeviceGetTotalEccErrors(gpu, 0, 0)", "nvmlDeviceGetMigMode(gpu)", "nvmlDeviceGetRemappedRows(gpu)"):
        assert reader.code(call) == NOT_SUPPORTED, call
    assert reader.tell("nvmlDeviceGetMaxMigDeviceCount(gpu), nvmlDeviceGetBrand(gpu)") == [0, 5]


def test_fields_answer_each_for_itself(one):
    reader = one(pcie_tx_bytes=2**40 + 9, pcie_rx_bytes=7, memory_temperature_c=55)
    reader.do("fields = nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_FI_DEV_MEMORY_TEMP, 60, NVML_FI_DEV_POWER_INSTANT])")
    assert reader.tell("[field.nvmlReturn for field in fields]") == [0, 0, 0, NOT_SUPPORTED, 0]
    assert reader.tell("[fields[at].value.uiVal for at in (0, 1, 2, 4)]") == [9, 7, 55, 60000]  # the counters of PCIe have 32 bits


def test_a_memory_temperature_that_is_not_known_is_not_zero(one):
    assert one().tell("nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_MEMORY_TEMP])[0].nvmlReturn") == NOT_SUPPORTED


def test_pcie_throughput_takes_its_twenty_milliseconds(one):
    reader = one()
    reader.do("import time\nbegan = time.monotonic()\nnvmlDeviceGetPcieThroughput(gpu, 0)\ntook = time.monotonic() - began")
    assert reader.tell("took") >= 0.02
    assert reader.tell("nvmlDeviceGetCurrPcieLinkGeneration(gpu), nvmlDeviceGetCurrPcieLinkWidth(gpu), nvmlDeviceGetPcieReplayCounter(gpu)") == [4, 16, 0]


def test_processes_are_listed_by_kind_with_memory_that_may_be_unknown(one):
    reader = one(processes=(FakeProcess(10, 256), FakeProcess(11, None), FakeProcess(12, 5, kind="graphics")))
    outside = {"gpuInstanceId": NO_INSTANCE, "computeInstanceId": NO_INSTANCE}
    compute = [{"pid": 10, "usedGpuMemory": 256 * MIB, **outside}, {"pid": 11, "usedGpuMemory": None, **outside}]
    assert reader.tell("nvmlDeviceGetComputeRunningProcesses(gpu)") == compute
    assert reader.tell("nvmlDeviceGetComputeRunningProcesses_v2(gpu)") == compute
    assert reader.tell("[found.pid for found in nvmlDeviceGetGraphicsRunningProcesses(gpu)]") == [12]


def test_processes_are_listed_in_detail_by_mode(one):
    reader = one(processes=(FakeProcess(10, 256), FakeProcess(12, 5, kind="graphics")))
    detail = "[(found.pid, found.usedGpuMemory) for found in nvmlDeviceGetRunningProcessDetailList(gpu, nvmlProcessDetailList_v1, {})]"
    assert reader.tell(detail.format("NVML_PROCESS_MODE_ALL")) == [[10, 256 * MIB], [12, 5 * MIB]]
    assert reader.tell(detail.format("NVML_PROCESS_MODE_GRAPHICS")) == [[12, 5 * MIB]]
    assert reader.code("nvmlDeviceGetRunningProcessDetailList(gpu, 1, 0)") == VERSION_MISMATCH


def test_the_first_layout_of_processes_is_sixteen_bytes_each(one):
    reader = one(processes=(FakeProcess(10, 256), FakeProcess(11, 1)))
    reader.do("rows = (c_ulonglong * 4)()\ncount = c_uint(2)\ncode = pynvml._nvmlGetFunctionPointer('nvmlDeviceGetComputeRunningProcesses')(gpu, byref(count), rows)")
    assert reader.tell("code, count.value, rows[0], rows[1], rows[2]") == [0, 2, 10, 256 * MIB, 11]


@pytest.mark.parametrize(("room", "given", "code", "count"), [(0, "None", INSUFFICIENT_SIZE, 3), (2, "rows", INSUFFICIENT_SIZE, 3), (3, "rows", 0, 3), (9, "rows", 0, 3), (9, "None", INVALID_ARGUMENT, 9)])
def test_too_little_room_for_processes_says_how_much_is_needed(one, room: int, given: str, code: int, count: int):
    reader = one(processes=tuple(FakeProcess(pid) for pid in (1, 2, 3)))
    reader.do(f"rows = (c_nvmlProcessInfo_v3_t * 9)()\ncount = c_uint({room})\ncode = pynvml._nvmlGetFunctionPointer('nvmlDeviceGetComputeRunningProcesses_v3')(gpu, byref(count), {given})")
    assert reader.tell("code, count.value, rows[0].pid") == [code, count, 1 if code == 0 else 0]


def test_no_processes_is_success_without_room(one):
    assert one().tell("nvmlDeviceGetComputeRunningProcesses(gpu)") == []


def test_samples_of_processes_are_handed_out_as_they_are_also_over_100(one):
    reader = one(processes=(FakeProcess(10, sm=85, mem=60), FakeProcess(11, sm=4000), FakeProcess(12)))
    samples = reader.tell("nvmlDeviceGetProcessUtilization(gpu, 0)")
    assert [(each["pid"], each["smUtil"], each["memUtil"]) for each in samples] == [(10, 85, 60), (11, 4000, 0)]
    newer = reader.tell("nvmlDeviceGetProcessesUtilizationInfo(gpu, 0)")
    assert [(each["pid"], each["smUtil"], each["memUtil"]) for each in newer] == [(10, 85, 60), (11, 4000, 0)]


def test_only_samples_newer_than_the_newest_seen_come_and_their_time_goes_on(one):
    reader = one(processes=(FakeProcess(10, sm=85),))
    reader.do("first = nvmlDeviceGetProcessUtilization(gpu, 0)[0].timeStamp\nsecond = nvmlDeviceGetProcessUtilization(gpu, first)[0].timeStamp")
    assert reader.tell("second > first")
    assert reader.code("nvmlDeviceGetProcessUtilization(gpu, second + 3600 * 10**6)") == NOT_FOUND


def test_no_sample_is_not_found_after_the_driver_asked_for_room(one):
    reader = one(processes=(FakeProcess(10),))
    assert reader.code("nvmlDeviceGetProcessUtilization(gpu, 0)") == NOT_FOUND
    reader.do("count = c_uint(0)\ncode = pynvml._nvmlGetFunctionPointer('nvmlDeviceGetProcessUtilization')(gpu, None, byref(count), c_ulonglong(0))")
    assert reader.tell("code, count.value") == [INSUFFICIENT_SIZE, 100]


def test_a_driver_may_say_success_where_it_has_no_samples(one):
    reader = one(fails={"nvmlDeviceGetProcessUtilization": 0})
    with pytest.raises(NvmlFailed) as failed:
        reader.tell("nvmlDeviceGetProcessUtilization(gpu, 0)")
    assert failed.value.code == 0


WATCHING = "events = nvmlEventSetCreate()\nnvmlDeviceRegisterEvents(gpu, nvmlEventTypeXidCriticalError, events)\nfound = []\n"


def test_an_xid_reaches_a_waiter_once_and_the_next_wait_times_out(opened, fake: FakeNvml):
    machine = FakeMachine((FakeGpu(), FakeGpu()))
    reader = opened(machine)
    reader.do(WATCHING + "waiter = threading.Thread(target=lambda: found.append(nvmlEventSetWait_v2(events, 20000)))\nwaiter.start()")
    fake.write(replace(machine, xids=(FakeXid(gpu=1, code=13, number=1), FakeXid(gpu=0, code=79, number=2))))  # the first GPU alone is watched
    reader.do("waiter.join()")
    assert reader.tell("found[0].eventData, found[0].eventType, nvmlDeviceGetIndex(found[0].device), found[0].gpuInstanceId") == [79, 8, 0, NO_INSTANCE]
    assert reader.code("nvmlEventSetWait_v2(events, 1)") == TIMEOUT
    fake.write(replace(machine, xids=(FakeXid(number=2), FakeXid(code=48, number=3))))
    assert reader.tell("nvmlEventSetWait_v2(events, 20000).eventData") == 48
    reader.do("nvmlEventSetFree(events)")


def test_a_waiter_does_not_keep_others_out(one):
    reader = one()
    reader.do(WATCHING + "def wait():\n    try: nvmlEventSetWait_v2(events, 600000)\n    except NVMLError as error: found.append(error.value)\nwaiter = threading.Thread(target=wait)\nwaiter.start()")
    assert reader.tell("nvmlDeviceGetPowerUsage(gpu)") == 60000
    reader.do("nvmlShutdown()\nwaiter.join()")
    assert reader.tell("found") == [1], "a wait ends with the library"


def test_a_lost_gpu_refuses_every_call_and_its_neighbour_none(opened, fake: FakeNvml):
    reader = opened(FakeMachine((FakeGpu(uuid="GPU-1"), FakeGpu())))
    fake.write(FakeMachine((FakeGpu(uuid="GPU-1", lost=True), FakeGpu())))
    for call in ("nvmlDeviceGetUUID(gpu)", "nvmlDeviceGetPowerUsage(gpu)", "nvmlDeviceGetComputeRunningProcesses(gpu)", "nvmlDeviceGetHandleByIndex(0)", "nvmlDeviceGetHandleByUUID('GPU-1')"):
        assert reader.code(call) == GPU_IS_LOST, call
    assert reader.tell("nvmlDeviceGetCount(), nvmlDeviceGetPowerUsage(nvmlDeviceGetHandleByIndex(1))") == [2, 60000]


def test_a_function_fails_as_told_in_all_its_versions(opened):
    reader = opened(FakeMachine((FakeGpu(fails={"nvmlDeviceGetMemoryInfo": 999, "nvmlDeviceGetComputeRunningProcesses_v2": 4}), FakeGpu())))
    assert [reader.code(f"nvmlDeviceGetMemoryInfo(gpu{more})") for more in ("", ", nvmlMemory_v2")] == [999, 999]
    assert [reader.code(f"nvmlDeviceGetComputeRunningProcesses_v{version}(gpu)") for version in (2, 3)] == [4, 0]
    assert reader.code("nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(1))") == 0


@pytest.mark.parametrize(("machine", "code"), [(FakeMachine(init_fails=18), 18), (None, DRIVER_NOT_LOADED)])
def test_a_driver_may_not_be_there_or_refuse(fake: FakeNvml, machine: FakeMachine | None, code: int):
    if machine:
        fake.write(machine)
    reader = Reader({**os.environ, **fake.env})
    assert reader.code("nvmlInit()") == code
    reader.close()


def test_nothing_answers_before_the_start_or_after_the_end(one):
    reader = one()
    reader.do("nvmlInit()\nnvmlShutdown()")
    assert reader.code("nvmlDeviceGetCount()") == 0, "started twice, ended once"
    reader.do("nvmlShutdown()")
    assert reader.code("nvmlDeviceGetCount()") == 1
    assert reader.code("nvmlDeviceGetName(gpu)") == 1


@pytest.mark.parametrize(("name", "call"), [("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetUtilizationRates(gpu)"), ("nvmlInit", "nvmlInit()"), ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2)")])
def test_a_call_that_hangs_never_returns_and_others_do(opened, fake: FakeNvml, name: str, call: str):
    reader = opened(FakeMachine((FakeGpu(),)))
    fake.write(FakeMachine((FakeGpu(power_w=77),), hang=(name,)))
    reader.do(f"stuck = threading.Thread(target=lambda: {call}, daemon=True)\nstuck.start()")
    assert reader.tell("nvmlDeviceGetPowerUsage(gpu)") == 77000
    reader.do("stuck.join(0.2)")
    assert reader.tell("stuck.is_alive(), nvmlDeviceGetPowerUsage(gpu)") == [True, 77000]


def test_a_script_replaced_under_a_reader_is_seen_at_once(opened, fake: FakeNvml):
    reader = opened(FakeMachine((FakeGpu(),)))
    for watts in (100, 101, 102, 103):  # scripts of one length, one after another
        fake.write(FakeMachine((FakeGpu(power_w=watts),)))
        assert reader.tell("nvmlDeviceGetPowerUsage(gpu)") == watts * 1000


def test_readers_in_many_threads_see_whole_machines_while_the_script_changes(opened, fake: FakeNvml):
    machines = [FakeMachine(tuple(FakeGpu(used_mib=used, processes=tuple(FakeProcess(pid, used) for pid in range(1, 9))) for _ in range(4))) for used in (100, 200)]
    reader = opened(machines[0])
    reader.do("""
seen, ending = [], threading.Event()
def read(at):
    while not ending.is_set():
        device = nvmlDeviceGetHandleByIndex(at)
        seen.append({found.usedGpuMemory for found in nvmlDeviceGetComputeRunningProcesses(device)})
readers = [threading.Thread(target=read, args=(at,)) for at in range(4)]
[each.start() for each in readers]
""")
    for at in range(100):
        fake.write(machines[at % 2])
    reader.do("ending.set()\n[each.join() for each in readers]")
    assert reader.tell("len(seen) > 0 and all(len(each) == 1 for each in seen)")


@pytest.mark.parametrize(
    ("gpu", "words"),
    [(FakeGpu(mig=True, instances=(FakeInstance(gi=1), FakeInstance(gi=2))), "slots"), (FakeGpu(name="two\nlines"), "one line"), (FakeGpu(fails=dict.fromkeys(map(str, range(17)), 3)), "failing")],
)
def test_a_machine_that_cannot_be_is_refused_in_words(fake: FakeNvml, gpu: FakeGpu, words: str):
    with pytest.raises(ValueError, match=words):
        fake.write(FakeMachine((gpu,)))


def test_the_library_is_built_once(fake: FakeNvml, tmp_path: Path):
    before = fake.library.stat()
    assert FakeNvml(tmp_path).library.stat() == before
    assert ctypes.CDLL(str(fake.library)).nvmlDeviceGetCount_v2(None) == 1  # not started


def recorded_on(fake: FakeNvml, gpu: FakeGpu) -> dict[str, dict[str, object]]:
    fake.write(FakeMachine((gpu,)))
    done = subprocess.run([sys.executable, str(FOLDER / "record.py")], env={**os.environ, **fake.env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_recording_names_what_differs(fake: FakeNvml):
    seen = recorded_on(fake, H200)
    assert compare(seen, seen) == []
    assert len(compare(seen, recorded_on(fake, replace(H200, fails={"nvmlDeviceGetPowerUsage": 3})))) == 1


def test_an_instance_is_recorded_too(fake: FakeNvml):
    seen = recorded_on(fake, FakeGpu(mig=True, instances=(FakeInstance(gi=7, slot=3, processes=(FakeProcess(1),)),)))
    assert seen["MIG nvmlDeviceGetPowerUsage"] == {"error": NOT_SUPPORTED}
    assert seen["MIG nvmlDeviceGetUUID"] == {"type": "str"}


@pytest.mark.parametrize(("recording", "gpu"), [("h200.json", H200), ("h200_mig.json", H200_CUT)])
def test_the_fake_answers_as_an_h200_does(fake: FakeNvml, recording: str, gpu: FakeGpu):
    """The second with MIG on, cut in three, and a process in the first instance."""
    assert compare(json.loads((FOLDER / recording).read_text()), recorded_on(fake, gpu)) == []


def test_calls_are_counted_while_the_machine_says_so(opened, fake: FakeNvml):
    reader = opened(FakeMachine((FakeGpu(),), counts_calls=True))
    fake.calls()
    reader.tell("nvmlDeviceGetPowerUsage(gpu), nvmlDeviceGetPowerUsage(gpu), nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2)")
    assert fake.calls() == {"nvmlDeviceGetPowerUsage": 2, "nvmlDeviceGetMemoryInfo_v2": 1}
    fake.write(FakeMachine((FakeGpu(),)))
    reader.tell("nvmlDeviceGetPowerUsage(gpu)")
    assert fake.calls() == {}
