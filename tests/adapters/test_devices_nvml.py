"""What the real nvidia-ml-py tells of GPUs, on the fake library: whole GPUs, processes, and all that may be missing."""
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from nvml_child_scene import asking, one_sample, reading, second_sample

from fake_nvml import FakeGpu, FakeMachine, FakeNvml, FakeProcess, FakeXid
from fake_nvml.reader import readers
from gpufairy.core.reading import GpuProcess

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

MIB = 2**20
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 3, 4, 6, 13, 15, 999
SM, OCCUPANCY, TENSOR, DRAM = 2, 3, 5, 10  # GPM's metrics
H200 = FakeGpu("NVIDIA H200", memory_mib=143771, architecture=9, gpm={SM: 81.5, OCCUPANCY: 40.0, TENSOR: 62.0, DRAM: 55.0})


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path)


def processes_by_pid(sample) -> dict[int, GpuProcess]:
    return {process.pid: process for process in sample.processes}


def test_every_value_of_a_gpu_is_read_in_our_units(fake):
    gpu = FakeGpu(
        used_mib=1024, utilisation=85, memory_utilisation=60, power_w=251.5, power_limit_w=400, energy_j=123456.789, temperature_c=61, memory_temperature_c=70, fan=35,
        sm_clock_mhz=1410, memory_clock_mhz=1215, throttle=0b1_0010_0101, ecc_corrected=3, ecc_uncorrected=1, remapped=(2, 1, 1, 0), pcie_tx_bytes=10**9, pcie_rx_bytes=5,
    )  # fmt: skip
    sample = one_sample(fake, gpu)
    found = reading(sample)
    assert (found.utilisation, found.memory_utilisation, found.fan) == (0.85, 0.60, 0.35)
    assert (found.memory_used_bytes, found.memory_total_bytes) == (1024 * MIB, 40960 * MIB)
    assert (found.power_w, found.power_limit_w, found.energy_j) == (251.5, 400.0, 123456.789)
    assert (found.temperature_c, found.memory_temperature_c, found.slowdown_c) == (61, 70, 92)
    assert (found.sm_clock_hz, found.memory_clock_hz) == (1_410_000_000, 1_215_000_000)
    assert found.throttled_by == ("power cap", "software heat", "display clocks")
    assert (found.ecc_corrected, found.ecc_uncorrected) == (3, 1)
    assert (found.remapped_corrected, found.remapped_uncorrected, found.remap_pending, found.remap_failed) == (2, 1, True, False)
    assert (found.pcie_sent_bytes, found.pcie_received_bytes) == (10**9, 5)
    assert not found.simulated
    assert (sample.driver, sample.driver_cuda) == ("580.159.04", "13.0")
    assert 0 < sample.took_s < 1


def test_a_gpu_is_named_by_its_index_kind_and_address(fake):
    (first, second) = one_sample(fake, FakeGpu(), H200).devices
    assert (first.label, first.index, first.kind, first.name, first.mig) == ("0", 0, "A100-40GB", "NVIDIA A100-SXM4-40GB", False)
    assert (second.label, second.kind, second.memory_bytes) == ("1", "H200-141GB", 143771 * MIB)
    assert first.bus != second.bus
    assert first.uuid.startswith("GPU-")


def test_memory_that_the_driver_keeps_is_not_used_memory(fake):
    assert reading(one_sample(fake, FakeGpu(used_mib=10, reserved_mib=600))).memory_used_bytes == 10 * MIB


READINGS_BY_CALL = {
    "nvmlDeviceGetUtilizationRates": "utilisation", "nvmlDeviceGetPowerUsage": "power_w", "nvmlDeviceGetTotalEnergyConsumption": "energy_j",
    "nvmlDeviceGetTotalEccErrors": "ecc_corrected", "nvmlDeviceGetRemappedRows": "remap_failed", "nvmlDeviceGetFieldValues": "pcie_sent_bytes",
    "nvmlDeviceGetEnforcedPowerLimit": "power_limit_w", "nvmlDeviceGetClockInfo": "sm_clock_hz", "nvmlDeviceGetTemperatureThreshold": "slowdown_c",
}  # fmt: skip


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, UNKNOWN])
def test_what_the_driver_does_not_say_is_not_known_and_never_nought(fake, code):
    found = reading(one_sample(fake, FakeGpu(fails=dict.fromkeys(READINGS_BY_CALL, code))))
    assert {name: getattr(found, name) for name in READINGS_BY_CALL.values()} == dict.fromkeys(READINGS_BY_CALL.values())
    assert found.memory_used_bytes == 0  # the rest goes on


def test_old_and_new_names_of_one_call_give_the_same(fake):
    gone = {"nvmlDeviceGetTemperature": NOT_SUPPORTED, "nvmlDeviceGetCurrentClocksThrottleReasons": NOT_SUPPORTED}
    found = reading(one_sample(fake, FakeGpu(temperature_c=44, throttle=4, fails=gone)))
    assert (found.temperature_c, found.throttled_by) == (44, ("power cap",))


def test_a_value_that_failed_later_is_not_kept(fake):
    fake.write(FakeMachine((FakeGpu(energy_j=5),)))
    with asking(fake) as child:
        assert reading(child.sample()).energy_j == 5
        fake.write(FakeMachine((FakeGpu(fails={"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED}),)))
        child.sample_with(lambda sample: reading(sample).energy_j is None)


def test_slow_values_are_read_less_often(fake):
    fake.write(FakeMachine((FakeGpu(energy_j=5, power_w=10),)))
    with asking(fake, "--slow", "3600") as child:
        child.sample()
        fake.write(FakeMachine((FakeGpu(energy_j=6, power_w=20),)))
        assert reading(child.sample_with(lambda sample: reading(sample).power_w == 20)).energy_j == 5


def test_gpm_tells_how_the_sms_worked(fake):
    found = reading(second_sample(fake, H200))
    assert (found.sm_active, found.sm_occupancy, found.tensor_active, found.dram_active) == (0.815, 0.40, 0.62, 0.55)


def test_gpm_needs_two_looks_and_a_gpu_that_has_it(fake):
    assert reading(one_sample(fake, H200)).sm_active is None
    assert reading(second_sample(fake, FakeGpu())).sm_active is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 101.0])
def test_a_part_that_is_none_is_not_known(fake, value):
    found = reading(second_sample(fake, replace(H200, gpm={SM: value, DRAM: 50})))
    assert (found.sm_active, found.sm_occupancy, found.dram_active) == (None, None, 0.5)


def test_processes_have_their_memory_and_their_part_of_the_time(fake):
    found = processes_by_pid(one_sample(fake, FakeGpu(processes=(FakeProcess(11, 1024, sm=85, mem=60), FakeProcess(12, None, sm=5, mem=1)))))
    assert (found[11].memory_bytes, found[11].utilisation, found[11].memory_utilisation, found[11].kind) == (1024 * MIB, 0.85, 0.60, "compute")
    assert (found[12].memory_bytes, found[12].utilisation) == (None, 0.05)


def test_a_process_without_a_sample_did_nothing(fake):
    assert processes_by_pid(one_sample(fake, FakeGpu(processes=(FakeProcess(11),))))[11].utilisation == 0.0
    found = processes_by_pid(one_sample(fake, FakeGpu(processes=(FakeProcess(11), FakeProcess(12, sm=7, mem=0)))))
    assert (found[11].utilisation, found[12].utilisation) == (0.0, 0.07)


@pytest.mark.parametrize(("code", "utilisation"), [(NOT_FOUND, 0.0), (0, 0.0), (NOT_SUPPORTED, None), (NO_PERMISSION, None), (UNKNOWN, None)])
def test_nothing_ran_is_nought_and_nobody_can_tell_is_not(fake, code, utilisation):
    gpu = FakeGpu(processes=(FakeProcess(11, sm=9, mem=9),), fails={"nvmlDeviceGetProcessUtilization": code})
    assert processes_by_pid(one_sample(fake, gpu))[11].utilisation == utilisation


def test_a_process_said_to_be_over_a_hundred_is_not_known(fake):
    found = processes_by_pid(one_sample(fake, FakeGpu(processes=(FakeProcess(11, sm=4_000_000, mem=3), FakeProcess(12, sm=50, mem=3)))))
    assert (found[11].utilisation, found[12].utilisation) == (None, 0.5)


@pytest.mark.parametrize(
    ("fails", "known"),
    [({}, True), ({"nvmlDeviceGetComputeRunningProcesses": UNKNOWN}, False), ({"nvmlDeviceGetComputeRunningProcesses": NOT_SUPPORTED}, False),
     ({"nvmlDeviceGetComputeRunningProcesses_v3": FUNCTION_NOT_FOUND}, True), ({"nvmlDeviceGetGraphicsRunningProcesses": UNKNOWN}, False),
     ({"nvmlDeviceGetMPSComputeRunningProcesses": NOT_SUPPORTED, "nvmlDeviceGetGraphicsRunningProcesses": FUNCTION_NOT_FOUND}, True)],
)  # fmt: skip
def test_a_list_that_cannot_be_read_is_not_an_empty_one(fake, fails, known):
    sample = one_sample(fake, FakeGpu(processes=(FakeProcess(11),), fails=fails), FakeGpu())
    assert [one.processes_known for one in sample.readings] == [known, True]
    assert [process.pid for process in sample.processes] == ([11] if known else [])


def test_processes_that_draw_and_those_under_mps_are_told_apart(fake):
    listed = (FakeProcess(11, kind="graphics"), FakeProcess(12, kind="mps"), FakeProcess(13, 5, kind="compute"), FakeProcess(13, 5, kind="graphics"))
    found = one_sample(fake, FakeGpu(processes=listed)).processes
    assert sorted((one.pid, one.kind) for one in found) == [(11, "graphics"), (12, "mps"), (13, "compute")]


def test_utilisation_goes_on_from_sample_to_sample(fake):
    fake.write(FakeMachine((FakeGpu(processes=(FakeProcess(11, sm=70, mem=1),)),)))
    with asking(fake) as child:
        child.sample()
        child.sample_with(lambda sample: sample.processes[0].utilisation == 0.7)
        fake.write(FakeMachine((FakeGpu(processes=(FakeProcess(11),)),)))
        child.sample_with(lambda sample: sample.processes[0].utilisation == 0.0)


def test_a_driver_that_has_not_counted_since_makes_nobody_look_idle(fake):
    busy, idle = (FakeMachine((FakeGpu(processes=(process,)),)) for process in (FakeProcess(11, sm=70, mem=1), FakeProcess(11)))
    with readers(fake) as open_reader:
        reader = open_reader(busy)
        reader.do("from datetime import UTC, datetime, timedelta\nfrom gpufairy.devices.nvml import Nvml\nnvml = Nvml()\nnvml.open()")
        reader.do("later = lambda seconds: nvml.sample(datetime.now(UTC) + timedelta(seconds=seconds)).processes[0].utilisation")
        assert reader.tell("later(0)") == 0.7
        fake.write(idle)
        assert reader.tell("later(0.1), later(0.5), later(2), later(2.1)") == [0.7, 0.7, 0.0, 0.0]


CLOCK_PUT_BACK = """
from datetime import UTC, datetime, timedelta
from gpufairy.devices.nvml import Nvml
nvml, now = Nvml(), datetime.now(UTC)
nvml.open()
print([nvml.sample(at).processes[0].utilisation for at in (now + timedelta(hours=1), now)])
"""


def test_a_clock_put_back_makes_nobody_look_idle(fake):
    fake.write(FakeMachine((FakeGpu(processes=(FakeProcess(11, sm=70, mem=1),)),)))
    told = subprocess.run([sys.executable, "-c", CLOCK_PUT_BACK], env={**os.environ, **fake.env}, capture_output=True, text=True, check=True)
    assert told.stdout == "[0.0, 0.7]\n"


def test_a_lost_gpu_is_named_and_the_others_go_on(fake):
    fake.write(FakeMachine((FakeGpu(power_w=10), FakeGpu(), FakeGpu(power_w=30))))
    with asking(fake) as child:
        lost_uuid = child.sample().devices[1].uuid
        fake.write(FakeMachine((FakeGpu(power_w=10), FakeGpu(lost=True), FakeGpu(power_w=30))))
        sample = child.sample_with(lambda sample: sample.lost)
        assert [(gone.index, gone.uuid, gone.why) for gone in sample.lost] == [(1, lost_uuid, "GPU is lost")]
        assert [device.index for device in sample.devices] == [0, 2]
        assert [one.power_w for one in sample.readings] == [10, 30]
        child.sample_with(lambda sample: sample.lost and len(sample.readings) == 2)  # and stays so
        fake.write(FakeMachine((FakeGpu(), FakeGpu(), FakeGpu())))
        assert len(child.sample_with(lambda sample: not sample.lost).devices) == 3


def test_a_gpu_lost_before_we_came_has_no_name(fake):
    (gone,) = one_sample(fake, FakeGpu(lost=True)).lost
    assert (gone.index, gone.uuid) == (0, None)


@pytest.mark.parametrize("call", ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUUID"])
def test_a_gpu_that_fails_at_what_every_gpu_can_is_lost(fake, call):
    sample = one_sample(fake, FakeGpu(fails={call: UNKNOWN}), FakeGpu())
    assert [gone.index for gone in sample.lost] == [0]
    assert [device.index for device in sample.devices] == [1]


@pytest.mark.parametrize("call", ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetRemappedRows"])
def test_any_call_may_tell_that_a_gpu_is_lost(fake, call):
    sample = one_sample(fake, FakeGpu(processes=(FakeProcess(11),), fails={call: GPU_IS_LOST}))
    assert (len(sample.lost), sample.devices, sample.readings, sample.processes) == (1, (), (), ())


def test_a_gpu_that_is_not_for_us_is_not_there(fake):
    sample = one_sample(fake, FakeGpu(fails={"nvmlDeviceGetHandleByIndex": NO_PERMISSION}), FakeGpu())
    assert ([device.index for device in sample.devices], sample.lost) == ([1], ())


def test_gpus_that_come_and_go_are_seen(fake):
    fake.write(FakeMachine((FakeGpu(),)))
    with asking(fake, "--slow", "3600") as child:
        child.sample()
        fake.write(FakeMachine((FakeGpu(), H200)))
        assert child.sample_with(lambda sample: len(sample.devices) == 2).devices[1].kind == "H200-141GB"
        fake.write(FakeMachine(()))
        child.sample_with(lambda sample: sample.devices == ())


def test_each_xid_is_told_once_with_the_gpu_that_it_befell(fake):
    gpus = (FakeGpu(), FakeGpu())
    fake.write(FakeMachine(gpus))
    with asking(fake) as child:
        uuids = [device.uuid for device in child.sample().devices]
        fake.write(FakeMachine(gpus, xids=(FakeXid(1, 79, number=1), FakeXid(0, 31, number=2))))
        seen = list(child.sample_with(lambda sample: sample.xids).xids)
        while len(seen) < 2:
            seen += child.sample_with(lambda sample: sample.xids).xids
        assert sorted((xid.code, xid.uuid) for xid in seen) == [(31, uuids[0]), (79, uuids[1])]
        assert seen[0].at.tzinfo is not None
        assert [xid for _ in range(5) for xid in child.sample().xids] == []


def test_an_xid_of_a_gpu_that_is_lost_by_it_keeps_its_name(fake):
    fake.write(FakeMachine((FakeGpu(),)))
    with asking(fake) as child:
        uuid = child.sample().devices[0].uuid
        fake.write(FakeMachine((FakeGpu(lost=True),), xids=(FakeXid(0, 79),)))
        (xid,) = child.sample_with(lambda sample: sample.xids).xids
        assert (xid.uuid, xid.code) == (uuid, 79)


@pytest.mark.slow
def test_a_driver_that_says_no_is_told_and_asked_again(fake):
    fake.write(FakeMachine(init_fails=18))
    with asking(fake) as child:
        told = child.told()
        assert "mismatch" in told
        assert "reboot" in told
        fake.write(FakeMachine((FakeGpu(),)))
        assert len(child.sample().devices) == 1


def test_once_ends_with_a_code(fake, tmp_path):
    fake.write(FakeMachine(init_fails=9))
    with asking(fake, "--once") as child:
        assert "modprobe" in child.told()
        assert child.process.wait(20) == 1


def test_the_child_goes_with_its_parent_even_when_it_hangs(fake):
    fake.write(FakeMachine((FakeGpu(),)))
    with asking(fake) as child:
        child.sample()
        fake.write(FakeMachine((FakeGpu(),), hang=("nvmlDeviceGetPowerUsage",)))
        child.process.stdin.close()
        assert child.process.wait(20) == 0


def test_a_child_to_whom_nobody_listens_ends(fake):
    fake.write(FakeMachine((FakeGpu(),)))
    with asking(fake) as child:
        child.sample()
        child.process.stdout.close()
        assert child.process.wait(20) == 0


def test_a_machine_of_eight_gpus_costs_little(fake, capsys):
    gpus = tuple(replace(H200, processes=tuple(FakeProcess(1000 + 8 * gpu + n, sm=10, mem=5) for n in range(8))) for gpu in range(8))
    fake.write(FakeMachine(gpus))
    with asking(fake, "--slow", "5") as child:
        child.sample()
        before_ticks, samples = cpu_ticks(child.process.pid), [child.sample() for _ in range(20)]
        cpu_ms = (cpu_ticks(child.process.pid) - before_ticks) * 1000 / os.sysconf("SC_CLK_TCK") / 20
        resident_kib = int(status_of(child.process.pid)["VmRSS"].split()[0])
    with capsys.disabled():
        took_ms = min(sample.took_s for sample in samples) * 1000
        print(f"\n8 GPUs, 64 processes: {took_ms:.2f} ms a sample at best, {cpu_ms:.1f} ms of CPU with its line, {resident_kib // 1024} MiB resident")
    assert len(samples[-1].processes) == 64
    assert cpu_ms < 12  # usually 2
    assert resident_kib < 25 * 1024


def cpu_ticks(pid: int) -> int:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(parts[11]) + int(parts[12])


def status_of(pid: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
