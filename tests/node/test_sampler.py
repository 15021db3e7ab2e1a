"""One sample of a host, put together: what its GPUs say, whose the processes on them are, how the host is."""
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from gpufairy.core.active import ActivityWindow
from gpufairy.core.host_reading import HostReading
from gpufairy.core.node_sample import SessionReading
from gpufairy.core.owner import KnownBy
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, GpuSample, LostGpu, Xid
from gpufairy.node.containers import Containers
from gpufairy.node.pid_namespace import PidNamespace
from gpufairy.node.processes import Processes
from gpufairy.node.sampler import NOT_FOUND, Eyes, Sampler
from gpufairy.node.whose import Whose
from prometheus import NOON

GPU = GpuDevice("GPU-0", "0", 0, "A100-40GB", 40 * 2**30)
CUT = replace(GPU, mig=True)
INSTANCE = GpuDevice("MIG-1", "0_1_0", 0, "A100-40GB", 5 * 2**30, parent="GPU-0", profile="1g.5gb")


@dataclass
class FakeSource:
    sample: GpuSample | None = None
    trouble: str = ""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def latest(self) -> GpuSample | None:
        return self.sample


@dataclass
class FakeHost:
    trouble: tuple[str, ...] = ()
    reads: int = 0

    def read(self) -> HostReading:
        self.reads += 1
        return HostReading(NOON, cpus=self.reads)


@dataclass
class FakeSessions:
    asked: list[dict] = field(default_factory=list)

    def read(self, pids) -> tuple[SessionReading, ...]:
        self.asked.append(dict(pids))
        return tuple(SessionReading(name, 1.0, 2) for name in pids)


def gpus(*processes: GpuProcess, device: GpuDevice = GPU, utilisation: float | None = 0.5, **more: object) -> GpuSample:
    devices = (CUT, device) if device.parent else (device,)
    readings = tuple(GpuReading(one.uuid, NOON, utilisation if one is device else None) for one in devices)
    return GpuSample(NOON, devices, readings, processes, **{"driver": "580.65", **more})


def a_sampler(sample: GpuSample | None, **options) -> tuple[Sampler, FakeSource, FakeHost]:
    source, host, containers = FakeSource(sample), FakeHost(), Containers(list)
    eyes = Eyes(options.pop("processes", None) or Processes(), containers, Whose(containers, accounts=lambda uid: f"user{uid}"), host, options.pop("sessions", None))
    return Sampler("gpu01", source, eyes, **options), source, host


@contextmanager
def sleeping() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "1000"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def pid_of_nobody() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def on(pid: int, uuid: str = "GPU-0", use: float | None = 0.5) -> GpuProcess:
    return GpuProcess(pid, uuid, 2**30, use)


async def test_a_process_is_named_with_its_command_and_whose_it_is():
    with sleeping() as pid:
        sample = await a_sampler(gpus(on(pid)))[0].take()
    [process] = sample.processes
    assert (process.process.pid, process.process.command, process.process.line) == (pid, "sleep", "sleep 1000")
    assert (process.owner.user, process.owner.known_by, process.owner.outside) == (f"user{os.getuid()}", KnownBy.ACCOUNT, True)
    assert (process.active, sample.gpus_known, sample.trouble) == (True, True, ())


async def test_a_process_that_died_a_moment_ago_is_no_trouble():
    with sleeping() as pid:
        sampler, source, _ = a_sampler(gpus(on(pid)))
        await sampler.take()
    sample = await sampler.take()
    [process] = sample.processes
    assert (process.process.command, process.owner.user, process.on.pid) == (NOT_FOUND, None, pid)
    assert sample.trouble == ()
    source.sample = gpus()
    assert (await sampler.take()).processes == ()


async def test_processes_that_are_never_in_proc_tell_that_the_collector_is_shut_in():
    sampler, _, _ = a_sampler(gpus(on(pid_of_nobody())))
    for _ in range(2):
        sample = await sampler.take()
        assert [words for words in sample.trouble if "1 process on a GPU is not in /proc here" in words and "PID namespace" in words]


def shut_in(*, proc_is_ours: bool = True) -> Processes:
    processes = Processes()
    processes.namespace = PidNamespace(is_hosts=False, proc_is_ours=proc_is_ours)
    return processes


@pytest.mark.parametrize(("driver", "proc_is_ours", "named"), [("580.65", True, True), ("535.104.05", True, False), (None, True, False), ("470.256.02", False, True), ("580.65", False, False)])
async def test_a_number_of_another_namespace_names_nobody_here(driver: str | None, proc_is_ours: bool, named: bool):
    with sleeping() as pid:
        sample = await a_sampler(gpus(on(pid), driver=driver), processes=shut_in(proc_is_ours=proc_is_ours))[0].take()
    [process] = sample.processes
    assert (process.process.command, process.owner.user) == (("sleep", f"user{os.getuid()}") if named else (NOT_FOUND, None))
    assert bool([words for words in sample.trouble if "PID namespace" in words]) is not named


async def test_a_simulated_gpus_processes_are_told_by_their_numbers_here():
    with sleeping() as pid:
        sample = await a_sampler(gpus(on(pid), device=replace(GPU, simulated=True), driver=None), processes=shut_in())[0].take()
    assert sample.processes[0].process.command == "sleep"


async def test_a_process_that_left_a_simulated_gpu_since_it_was_listed_is_nobody_unknown():
    sample = await a_sampler(gpus(on(pid_of_nobody()), device=replace(GPU, simulated=True), driver=None))[0].take()
    assert sample.processes == ()


async def test_a_gpu_in_use_by_processes_that_a_container_hides_does_not_look_idle():
    sample = await a_sampler(gpus(utilisation=1.0), processes=shut_in())[0].take()
    assert [reading.processes_known for reading in sample.readings] == [False]
    assert [words for words in sample.trouble if words.startswith("GPU 0: in use by processes that are not seen here")]
    idle = await a_sampler(gpus(utilisation=0.0), processes=shut_in())[0].take()
    assert ([reading.processes_known for reading in idle.readings], idle.trouble) == ([True], ())


async def test_under_mig_what_the_instance_does_is_what_the_only_process_on_it_does():
    with sleeping() as pid:
        busy = a_sampler(gpus(on(pid, "MIG-1", None), device=INSTANCE, utilisation=0.7))[0]
        [process] = (await busy.take()).processes
        assert (process.active, process.on.utilisation) == (True, 0.7)


async def test_of_two_on_one_instance_nobody_can_tell_which_works():
    with sleeping() as first, sleeping() as second:
        sampler = a_sampler(gpus(on(first, "MIG-1", None), on(second, "MIG-1", None), device=INSTANCE, utilisation=0.7))[0]
        found = (await sampler.take()).processes
    assert [(process.active, process.on.utilisation) for process in found] == [(None, None), (None, None)]
    assert {process.active_why for process in found} == {"its use cannot be read"}


async def test_one_process_that_computes_and_draws_is_alone_with_itself():
    with sleeping() as pid:
        twice = (on(pid, "MIG-1", None), replace(on(pid, "MIG-1", None), kind="graphics"))
        found = (await a_sampler(gpus(*twice, device=INSTANCE, utilisation=0.7))[0].take()).processes
    assert [process.active for process in found] == [True, True]


async def test_a_process_is_idle_only_after_a_whole_window_of_nothing():
    with sleeping() as pid:
        sampler = a_sampler(gpus(on(pid, use=0.0)), window=ActivityWindow(0.0))[0]
        [process] = (await sampler.take()).processes
        assert process.active is False
        [process] = (await a_sampler(gpus(on(pid, use=0.0)))[0].take()).processes
        assert process.active is None


async def test_errors_that_come_between_two_looks_are_told_once_and_not_lost():
    sampler, source, _ = a_sampler(gpus())
    for code in (31, 79):
        sampler.note_errors(gpus(xids=(Xid("GPU-0", code, NOON),)))
    source.sample = gpus()  # a later one, without errors
    assert [xid.code for xid in (await sampler.take()).xids] == [31, 79]
    assert (await sampler.take()).xids == ()


async def test_errors_are_told_though_the_driver_has_fallen_silent():
    sampler, source, _ = a_sampler(None)
    sampler.note_errors(gpus(xids=(Xid("GPU-0", 79, NOON),)))
    source.trouble = "the NVIDIA driver has not answered for 12 s (NVML call hung)"
    sample = await sampler.take()
    assert ([xid.code for xid in sample.xids], sample.gpus_known, sample.trouble) == ([79], False, (source.trouble,))
    assert (sample.devices, sample.processes) == ((), ())
    assert sample.host is not None, "the host is read all the same"


async def test_a_machine_without_gpus_is_known_to_have_none():
    sample = await a_sampler(GpuSample(datetime.now(UTC)))[0].take()
    assert (sample.gpus_known, sample.devices, sample.trouble) == (True, (), ())


async def test_lost_gpus_and_the_driver_are_passed_on():
    lost = LostGpu(3, "GPU-3", "fell off the bus")
    sample = await a_sampler(gpus(lost=(lost,), driver="580.65", driver_cuda="13.0"))[0].take()
    assert (sample.lost, sample.driver, sample.driver_cuda) == ((lost,), "580.65", "13.0")


async def test_the_host_is_read_less_often_than_the_gpus():
    sampler, _, host = a_sampler(gpus())
    for _ in range(5):
        await sampler.take()
    assert host.reads == 1
    sampler, _, host = a_sampler(gpus(), host_every_s=0.0)
    for _ in range(3):
        await sampler.take()
    assert host.reads == 3


async def test_a_sample_stands_for_the_time_since_the_one_before():
    sampler = a_sampler(gpus())[0]
    first, second = await sampler.take(), await sampler.take()
    assert first.seconds == 0
    assert 0 < second.seconds <= (second.at - first.at).total_seconds() + 0.1


async def test_what_sessions_take_is_asked_with_their_processes():
    async def pids():
        return {"s-1": [os.getpid()]}

    sessions = FakeSessions()
    sample = await a_sampler(gpus(), sessions=sessions, pids_of_sessions=pids)[0].take()
    assert sessions.asked == [{"s-1": [os.getpid()]}]
    assert sample.sessions == (SessionReading("s-1", 1.0, 2),)
