"""GPU memory limited by the driver itself, on the fake library: from r615 on, for the cgroup of a container."""
import os
from pathlib import Path

import pytest

from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.core.errors import EngineRefused
from gpufairy.devices.memory_limits import DriverMemoryLimits, cgroup_of

CGROUP = Path("/sys/fs/cgroup/system.slice/docker-1.scope")
GIB = 2**30


def limits_of(tmp_path, env=None, **fields):
    fake = FakeNvml(tmp_path)
    fake.write(FakeMachine((FakeGpu(uuid="GPU-1"),), **fields))
    return DriverMemoryLimits(env={**fake.env, **(env or {})}), fake.script.with_name(f"{fake.script.name}.memory_limits.GPU-1")


async def test_a_driver_from_r615_on_holds_the_cgroup_and_reserves_nothing_above_it(tmp_path):
    limits, told = limits_of(tmp_path, driver="615.10")
    assert await limits.hold("GPU-1", CGROUP, 20 * GIB)
    assert told.read_text() == f"{CGROUP} 0 {20 * GIB}\n"


async def test_an_older_driver_is_asked_once_and_says_that_it_cannot(tmp_path):
    limits, told = limits_of(tmp_path)
    assert not await limits.hold("GPU-1", CGROUP, 20 * GIB)
    assert not await limits.hold("GPU-1", CGROUP, 20 * GIB)
    assert not told.exists()


async def test_an_older_nvidia_ml_py_cannot_either_whatever_the_driver_can(tmp_path):
    older = tmp_path / "older"
    older.mkdir()
    (older / "sitecustomize.py").write_text("import pynvml\ndel pynvml.nvmlDeviceSetMemoryLimits_v1, pynvml.c_nvmlSetMemoryLimits_v1_t\n")
    limits, told = limits_of(tmp_path, {"PYTHONPATH": os.pathsep.join([str(older), os.environ.get("PYTHONPATH", "")])}, driver="615.10")
    assert not await limits.hold("GPU-1", CGROUP, 20 * GIB)
    assert not told.exists()


async def test_without_a_driver_nothing_is_held_and_nothing_raised(tmp_path):
    limits = DriverMemoryLimits(env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert not await limits.hold("GPU-1", CGROUP, GIB)


async def test_a_driver_that_refuses_says_why(tmp_path):
    limits, _ = limits_of(tmp_path, driver="615.10")
    with pytest.raises(EngineRefused, match="Invalid Argument"):
        await limits.hold("GPU-1", tmp_path, GIB)


def test_a_process_is_found_in_the_single_tree_and_nowhere_else(tmp_path):
    for pid, text in {1: "0::/docker/abc\n", 2: "4:memory:/docker/abc\n"}.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(text)
    (tmp_path / "cgroup.controllers").write_text("memory dmem\n")
    assert cgroup_of(1, tmp_path, tmp_path) == tmp_path / "docker/abc"
    assert cgroup_of(2, tmp_path, tmp_path) is None
    assert cgroup_of(3, tmp_path, tmp_path) is None
    assert cgroup_of(1, tmp_path, tmp_path / "1") is None
