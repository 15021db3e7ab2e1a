"""The GPUs found at the start, by the driver's library in another process; what it cannot say is left out, never guessed."""
from pathlib import Path

import pytest

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml
from gpufairy.core.mig import MigInstance
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.devices.nvidia import Nvidia, found_nvidia

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

MIB = 2**20
NOT_SUPPORTED = 3


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path)


def found(fake: FakeNvml, *gpus: FakeGpu, **machine) -> Nvidia:
    fake.write(FakeMachine(gpus, **machine))
    return found_nvidia(fake.env)


def test_gpus_and_the_drivers_cuda_are_found(fake):
    seen = found(fake, FakeGpu("NVIDIA A30", memory_mib=24576, uuid="GPU-aa"), FakeGpu("NVIDIA H200", memory_mib=143771))
    assert [(gpu.index, gpu.kind, gpu.memory_bytes, gpu.mig, gpu.simulated) for gpu in seen.gpus] == [
        (0, "A30-24GB", 24576 * MIB, None, False), (1, "H200-141GB", 143771 * MIB, None, False),
    ]  # fmt: skip
    assert (seen.gpus[0].uuid, seen.driver_cuda, seen.trouble) == ("GPU-aa", "13.0", "")


def test_a_gpu_in_mig_mode_is_offered_as_it_is_cut(fake):
    cut = (FakeInstance(gi=1, slot=2, start=0, size=4, profile="3g.20gb", uuid="MIG-x"), FakeInstance(gi=9, slot=5, start=6, size=1, uuid="MIG-y"))
    (gpu,) = found(fake, FakeGpu(mig=True, instances=cut)).gpus
    assert gpu.mig == mig_tables()["A100-40GB"]
    assert gpu.instances == (MigInstance("3g.20gb", 0, 4, "MIG-x"), MigInstance("1g.5gb", 6, 1, "MIG-y"))


def test_a_gpu_in_mig_mode_that_is_not_cut_offers_nothing(fake):
    (gpu,) = found(fake, FakeGpu(mig=True)).gpus
    assert gpu.instances == ()


def test_a_kind_without_a_table_is_offered_as_it_is_cut(fake):
    cut = tuple(FakeInstance(gi=n, slot=n, start=2 * n, size=2, profile="2g.99gb") for n in range(2))
    (gpu,) = found(fake, FakeGpu("NVIDIA Novel", mig=True, instances=cut)).gpus
    assert (gpu.mig.compute_slices, gpu.mig.memory_slices) == (4, 4)
    assert [(one.name, one.compute_slices, one.size, one.starts) for one in gpu.mig.profiles] == [("2g.99gb", 2, 2, (0, 2))]


def test_a_gpu_that_fell_off_the_bus_is_not_offered(fake):
    seen = found(fake, FakeGpu(), FakeGpu(lost=True), FakeGpu())
    assert [gpu.index for gpu in seen.gpus] == [0, 2]
    assert seen.trouble == ""


def test_a_gpu_that_does_not_tell_its_memory_is_not_offered(fake):
    assert found(fake, FakeGpu(fails={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED})).gpus == ()


def test_nothing_but_lost_gpus_is_trouble(fake):
    assert "GPU 0 does not answer: GPU is lost" in found(fake, FakeGpu(lost=True)).trouble


def test_a_driver_in_trouble_is_told_in_words(fake):
    seen = found(fake, init_fails=9)
    assert "Driver Not Loaded" in seen.trouble
    assert "modprobe nvidia" in seen.trouble


def test_a_driver_that_hangs_costs_seconds_at_most(fake):
    fake.write(FakeMachine((FakeGpu(),), hang=("nvmlDeviceGetMemoryInfo",)))
    assert "not answered for 1 s" in found_nvidia(fake.env, limit_s=1.0).trouble


def test_no_driver_is_no_trouble():
    assert found_nvidia({"LD_LIBRARY_PATH": ""}) == Nvidia()


def test_a_machine_with_a_driver_and_no_gpu_is_no_trouble(fake):
    assert found(fake) == Nvidia((), "13.0")
