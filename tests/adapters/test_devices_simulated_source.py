"""Samples of simulated GPUs: marked as such, as busy as the processes on them, cut as they were asked to be."""
import asyncio
import os
import subprocess
import time
from dataclasses import replace

import pytest

from gpufairy.devices.mig_tables import mig_tables
from gpufairy.devices.simulated import parse_simulate
from gpufairy.devices.simulated_source import CpuTimes, SimulatedSource, devices_of, processes_on

GPU, INSTANCE = "GPU-simulated-0000", "MIG-simulated-0000-01"


def a_source(simulate: str, held: dict[str, list[int]], **options) -> SimulatedSource:
    async def pids_by_gpu():
        return held

    return SimulatedSource(parse_simulate(simulate), pids_by_gpu, cores=1, **options)


def burn(seconds: float) -> None:
    until_s = time.process_time() + seconds
    while time.process_time() < until_s:
        pass


def reading(sample, uuid: str = GPU):
    return next(one for one in sample.readings if one.uuid == uuid)


async def test_all_that_is_simulated_says_so():
    sample = await a_source("2xA100-40GB:mig=3g.20gb+2g.10gb", {}).take()
    assert all(device.simulated for device in sample.devices)
    assert all(one.simulated for one in sample.readings)
    assert {one.uuid for one in sample.readings} == {device.uuid for device in sample.devices}
    assert sample.devices[0].name == "simulated A100-40GB"


def test_instances_have_labels_memory_and_a_place():
    (gpu,) = parse_simulate("A100-40GB:mig=3g.20gb+2g.10gb")
    whole, first, second = devices_of(gpu)
    assert (whole.label, whole.mig, whole.parent) == ("0", True, None)
    assert [(one.label, one.profile, one.start, one.size, one.parent) for one in (first, second)] == [("0_1_0", "3g.20gb", 0, 4, GPU), ("0_2_0", "2g.10gb", 4, 2, GPU)]
    assert first.memory_bytes == mig_tables()["A100-40GB"].profile("3g.20gb").memory_bytes > second.memory_bytes


async def test_a_gpu_cut_on_demand_is_read_as_a_whole():
    source = a_source("A100-40GB:mig", {GPU: [os.getpid()]})
    await source.take()
    sample = await source.take()
    assert [(device.label, device.mig) for device in sample.devices] == [("0", False)]
    assert reading(sample).memory_used_bytes > 0
    assert reading(sample).utilisation is not None


async def test_the_first_sample_knows_no_utilisation():
    sample = await a_source("T4", {GPU: [os.getpid()]}).take()
    assert (reading(sample).utilisation, sample.processes[0].utilisation) == (None, None)
    assert reading(sample).memory_used_bytes == sample.processes[0].memory_bytes > 0


@pytest.mark.slow
async def test_a_gpu_is_as_busy_as_its_processes_together():
    idle = await asyncio.create_subprocess_exec("sleep", "60")
    source = a_source("T4", {GPU: [os.getpid(), idle.pid]})
    await source.take()
    burn(0.2)
    sample = await source.take()
    idle.kill()
    await idle.wait()
    by_pid = {process.pid: process.utilisation for process in sample.processes}
    assert by_pid[idle.pid] == 0.0
    assert 0.3 < by_pid[os.getpid()] <= 1.0
    assert reading(sample).utilisation == pytest.approx(sum(by_pid.values()))


async def test_an_empty_gpu_is_idle():
    source = a_source("T4", {})
    await source.take()
    assert (reading(await source.take()).utilisation, reading(await source.take()).memory_used_bytes) == (0.0, 0)


async def test_a_process_on_an_instance_is_on_that_alone_and_its_memory_on_the_whole_too():
    source = a_source("A100-40GB:mig=3g.20gb+2g.10gb", {INSTANCE: [os.getpid()]})
    await source.take()
    burn(0.1)
    sample = await source.take()
    assert [(one.uuid, one.pid) for one in sample.processes] == [(INSTANCE, os.getpid())]
    assert reading(sample, INSTANCE).utilisation > 0
    assert reading(sample).utilisation is None
    assert reading(sample).memory_used_bytes == reading(sample, INSTANCE).memory_used_bytes > 0
    assert reading(sample, "MIG-simulated-0000-00").memory_used_bytes == 0


def test_parts_never_come_to_more_than_the_gpu():
    times = CpuTimes(cores=1)
    times.since_last({GPU: [os.getpid()]}, 10.0)
    burn(0.2)
    (device,) = devices_of(parse_simulate("T4")[0])
    took = times.since_last({GPU: [os.getpid()]}, 10.01)[GPU]
    assert took[os.getpid()].part > 1
    assert [one.utilisation for one in processes_on(device, took)] == [1.0]


def test_processes_that_are_gone_are_on_nothing():
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert CpuTimes(cores=1).since_last({GPU: [gone.pid]}, 1.0) == {GPU: {}}


def test_a_clock_that_stands_still_gives_no_figure():
    times = CpuTimes(cores=1)
    times.since_last({GPU: [os.getpid()]}, 1.0)
    assert times.since_last({GPU: [os.getpid()]}, 1.0)[GPU][os.getpid()].part is None


def test_memory_never_exceeds_the_gpu():
    (device,) = devices_of(parse_simulate("T4")[0])
    took = CpuTimes(cores=1).since_last({GPU: [os.getpid()]}, 1.0)[GPU]
    assert [one.memory_bytes for one in processes_on(replace(device, memory_bytes=4096), took)] == [4096]


async def test_samples_come_by_themselves_until_closed():
    seen = asyncio.Queue()
    source = a_source("T4", {}, every_s=0.01, on_sample=seen.put_nowait)
    assert source.latest() is None
    await source.start()
    assert source.latest() is await seen.get()
    await asyncio.wait_for(seen.get(), 10)
    await asyncio.wait_for(seen.get(), 10)
    await source.close()
    assert source.trouble == ""
