"""What one report says of GPUs, nodes, sessions and users: known, not known and nothing are three things."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpufairy.core.host_reading import DiskReading, HostReading, NetworkReading, UserLoad
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.points import HeldPart, equivalents, points_of
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading
from gpufairy.core.series import Kind, Point

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
GIB = 2**30
HOST = HostReading(
    NOW, cpus=16, cpu_used=0.25, load_1m=3.5, memory_total_bytes=64 * GIB, memory_available_bytes=48 * GIB,
    disks=(DiskReading("sda", 1000, 500),), networks=(NetworkReading("eth0", 10_000, 20_000),),
)  # fmt: skip


def a_device(index: int = 0, **fields) -> GpuDevice:
    return replace(GpuDevice(f"GPU-{index}", str(index), index, "A100-40GB", 40 * GIB), **fields)


def an_instance(slot: int, profile: str = "3g.20gb") -> GpuDevice:
    return GpuDevice(f"MIG-{slot}", f"0_{slot}_0", 0, "A100-40GB", 20 * GIB, parent="GPU-0", profile=profile)


def a_reading(uuid: str = "GPU-0", **fields) -> GpuReading:
    return replace(GpuReading(uuid, NOW, 0.5, 10 * GIB, power_w=300.0, temperature_c=60.0), **fields)


def in_session(session_id: str, user: str = "ann") -> Owner:
    return Owner(user, KnownBy.SESSION, session_id, f"{user}-work")


def a_process(owner: Owner, uuid: str = "GPU-0", pid: int = 7, **fields) -> ProcessReading:
    on = replace(GpuProcess(pid, uuid, 4 * GIB, 0.3), **fields)
    return ProcessReading(on, RunningProcess(pid, 1, 1000, "python"), owner)


def a_sample(**fields) -> NodeSample:
    return replace(NodeSample("gpu01", NOW, 5.0, HOST, (a_device(),), (a_reading(),)), **fields)


def held(**by_device: tuple) -> dict:
    return {uuid.replace("_", "-"): [HeldPart(*part) for part in parts] for uuid, parts in by_device.items()}


def found(points: tuple[Point, ...], kind: Kind, name: str) -> Point:
    return next(point for point in points if point.subject.kind is kind and point.subject.name == name)


def test_a_gpu_shows_what_was_read_and_what_is_held_of_it():
    gpu = found(points_of(a_sample(), None, held(GPU_0=[("s1", "ann", 0.5), ("s2", "bob", 0.25)])), Kind.GPU, "GPU-0")
    assert [gpu.value(name) for name in ("utilisation", "memory_bytes", "power_w", "temperature_c", "held")] == [0.5, 10 * GIB, 300, 60, 0.75]
    assert (gpu.value("sm_active"), gpu.value("held_unknown")) == (None, 0.0)


def test_when_the_driver_does_not_answer_nothing_looks_idle():
    sample = a_sample(gpus_known=False)
    points = points_of(sample, None, held(GPU_0=[("s1", "ann", 1.0)]))
    gpu, node = found(points, Kind.GPU, "GPU-0"), found(points, Kind.NODE, "gpu01")
    session, user = found(points, Kind.SESSION, "s1"), found(points, Kind.USER, "ann")
    assert (gpu.value("utilisation"), gpu.value("held"), gpu.value("held_unknown")) == (None, 1.0, 1.0)
    assert (node.value("gpu_utilisation"), node.value("gpus_used"), node.value("gpus_unknown")) == (None, None, 1.0)
    for of_them in (session, user):
        assert (of_them.value("gpus_held"), of_them.value("gpus_used"), of_them.value("gpus_unknown")) == (1.0, None, 1.0)
        assert of_them.value("gpu_memory_bytes") is None


def test_a_node_shows_its_host_and_the_mean_of_its_gpus():
    sample = a_sample(devices=(a_device(), a_device(1)), readings=(a_reading(), a_reading("GPU-1", utilisation=1.0)))
    node = found(points_of(sample, None, {}), Kind.NODE, "gpu01")
    assert [node.value(name) for name in ("cpu", "memory_bytes", "load_1m", "power_w")] == [0.25, 16 * GIB, 3.5, 600.0]
    assert (node.value("gpu_utilisation"), node.value("gpus_used"), node.value("read_bytes_per_s")) == (0.75, 1.5, None)


def test_a_host_that_could_not_be_read_leaves_its_gpus_known():
    node = found(points_of(a_sample(host=None), None, {}), Kind.NODE, "gpu01")
    assert (node.value("cpu"), node.value("memory_bytes"), node.value("gpu_utilisation")) == (None, None, 0.5)


def later(seconds: float, **counters) -> NodeSample:
    disks = (DiskReading("sda", counters.get("read", 6000), 500),)
    networks = (NetworkReading("eth0", 60_000, counters.get("sent", 20_000)),)
    host = replace(HOST, at=NOW + timedelta(seconds=seconds), disks=disks, networks=networks)
    return a_sample(host=host, at=host.at)


def rates(sample: NodeSample, before: NodeSample | None) -> list[float | None]:
    node = found(points_of(sample, before, {}), Kind.NODE, "gpu01")
    return [node.value(f"{name}_bytes_per_s") for name in ("read", "written", "received", "sent")]


def test_rates_come_from_two_readings_of_a_counter():
    assert rates(later(5), a_sample()) == [1000.0, 0.0, 10_000.0, 0.0]


def test_a_counter_that_fell_gives_no_rate_and_leaves_the_others():
    assert rates(later(5, read=10, sent=19_000), a_sample()) == [None, 0.0, 10_000.0, None]


@pytest.mark.parametrize("seconds", [0, -3600])
def test_a_clock_that_stood_or_went_back_gives_no_rate(seconds: float):
    assert rates(later(seconds), a_sample()) == [None] * 4


def test_a_disk_that_came_in_between_gives_no_rate():
    before = a_sample(host=replace(HOST, disks=()))
    assert rates(later(5), before)[:2] == [None, None]


def test_a_session_uses_what_its_processes_use():
    processes = (a_process(in_session("s1")), a_process(in_session("s1"), pid=8, utilisation=0.2), a_process(in_session("s2", "bob"), pid=9))
    sample = a_sample(processes=processes, sessions=(SessionReading("s1", 2.5, GIB),))
    points = points_of(sample, None, held(GPU_0=[("s1", "ann", 0.5), ("s2", "bob", 0.5)]))
    session = found(points, Kind.SESSION, "s1")
    assert session.value("gpus_used") == pytest.approx(0.5)
    assert [session.value(name) for name in ("gpus_held", "gpu_memory_bytes", "cpus", "memory_bytes")] == [0.5, 8 * GIB, 2.5, GIB]


def test_a_session_that_runs_nothing_on_its_gpu_uses_none_of_it():
    session = found(points_of(a_sample(), None, held(GPU_0=[("s1", "ann", 1.0)])), Kind.SESSION, "s1")
    assert (session.value("gpus_used"), session.value("gpus_unknown"), session.value("gpu_memory_bytes")) == (0.0, 0.0, 0.0)


def test_processes_that_nobody_counts_use_what_the_gpu_does_if_no_others_are_on_it():
    alone = (a_process(in_session("s1"), utilisation=None), a_process(in_session("s1"), pid=8, utilisation=None))
    session = found(points_of(a_sample(processes=alone), None, held(GPU_0=[("s1", "ann", 1.0)])), Kind.SESSION, "s1")
    assert session.value("gpus_used") == 0.5


def test_among_others_a_process_that_nobody_counts_leaves_the_use_unknown():
    shared = (a_process(in_session("s1"), utilisation=None), a_process(in_session("s2", "bob"), pid=8))
    points = points_of(a_sample(processes=shared), None, held(GPU_0=[("s1", "ann", 0.5), ("s2", "bob", 0.5)]))
    ann, bob = found(points, Kind.SESSION, "s1"), found(points, Kind.SESSION, "s2")
    assert (ann.value("gpus_used"), ann.value("gpus_unknown")) == (None, 0.5)
    assert (bob.value("gpus_used"), bob.value("gpus_unknown")) == (0.3, 0.0)


def test_of_two_gpus_the_one_that_is_known_counts_and_the_other_is_told_apart():
    sample = a_sample(devices=(a_device(), a_device(1)), readings=(a_reading(),), processes=(a_process(in_session("s1")),))
    session = found(points_of(sample, None, held(GPU_0=[("s1", "ann", 1.0)], GPU_1=[("s1", "ann", 1.0)])), Kind.SESSION, "s1")
    assert (session.value("gpus_held"), session.value("gpus_used"), session.value("gpus_unknown")) == (2.0, 0.3, 1.0)


def a_cut_gpu(**first) -> NodeSample:
    readings = (a_reading(utilisation=None), a_reading("MIG-1", utilisation=0.7, power_w=None), a_reading("MIG-2", utilisation=0.0, power_w=None))
    process = a_process(in_session("s1"), "MIG-1", utilisation=None)
    return a_sample(devices=(a_device(mig=True), an_instance(1), an_instance(2)), readings=readings, processes=(process,), **first)


def test_a_session_alone_on_an_instance_uses_what_the_instance_does():
    points = points_of(a_cut_gpu(), None, held(MIG_1=[("s1", "ann", 3 / 7)]))
    session = found(points, Kind.SESSION, "s1")
    assert session.value("gpus_used") == pytest.approx(0.7 * 3 / 7)
    gpus = [found(points, Kind.GPU, name).value("held") for name in ("GPU-0", "MIG-1", "MIG-2")]
    assert gpus == [pytest.approx(3 / 7), 1.0, 0.0]
    assert found(points, Kind.GPU, "GPU-0").value("utilisation") == pytest.approx(0.7 * 3 / 7)
    assert found(points, Kind.NODE, "gpu01").value("power_w") == 300.0


def test_an_instance_cut_on_demand_is_found_by_the_processes_on_it():
    points = points_of(a_cut_gpu(), None, held(GPU_0=[("s1", "ann", 3 / 7)]))
    session = found(points, Kind.SESSION, "s1")
    assert (session.value("gpus_used"), session.value("gpus_unknown")) == (pytest.approx(0.7 * 3 / 7), 0.0)
    assert found(points, Kind.GPU, "MIG-1").value("held") is None


def test_users_are_told_by_what_they_hold_and_by_what_they_run_beside():
    account = Owner("bob", KnownBy.ACCOUNT)
    processes = (a_process(in_session("s1")), a_process(account, pid=9, utilisation=0.15))
    host = replace(HOST, users=(UserLoad("bob", 3, 1.5, GIB), UserLoad("root", 90, 0.1, GIB)))
    points = points_of(a_sample(host=host, processes=processes), None, held(GPU_0=[("s1", "ann", 1.0)]))
    ann, bob = found(points, Kind.USER, "ann"), found(points, Kind.USER, "bob")
    assert [ann.value(name) for name in ("gpus_held", "gpus_used", "gpus_outside", "gpu_memory_bytes")] == [1.0, 0.3, 0.0, 4 * GIB]
    assert [bob.value(name) for name in ("gpus_held", "gpus_used", "gpus_outside", "cpus")] == [0.0, 0.0, 0.15, 1.5]
    assert {point.subject.name for point in points if point.subject.kind is Kind.USER} == {"ann", "bob"}


def test_a_process_of_nobody_known_makes_no_user():
    points = points_of(a_sample(processes=(a_process(Owner()),)), None, {})
    assert not [point for point in points if point.subject.kind is Kind.USER]


def test_a_session_without_gpus_is_known_by_its_owner():
    points = points_of(a_sample(sessions=(SessionReading("s3", 4.0, GIB),)), None, {}, {"s3": "eva"})
    session, user = found(points, Kind.SESSION, "s3"), found(points, Kind.USER, "eva")
    assert (session.value("gpus_held"), session.value("gpus_used"), session.value("cpus"), user.value("cpus")) == (0.0, 0.0, 4.0, 4.0)


def test_an_instance_counts_by_its_compute_slices():
    assert equivalents(an_instance(1, "2g.10gb")) == pytest.approx(2 / 7)
    assert equivalents(replace(an_instance(1, "1g.6gb"), kind="A30")) == 0.25
    assert equivalents(replace(an_instance(1), profile=None)) == pytest.approx(1 / 7)


def test_a_gpu_that_is_held_back_shows_by_what():
    gpu = found(points_of(a_sample(readings=(a_reading(throttled_by=("power cap", "software heat")),)), None, {}), Kind.GPU, "GPU-0")
    assert (gpu.value("throttled_power"), gpu.value("throttled_heat")) == (1.0, 1.0)
    gpu = found(points_of(a_sample(readings=(a_reading(throttled_by=()),)), None, {}), Kind.GPU, "GPU-0")
    assert (gpu.value("throttled_power"), gpu.value("throttled_heat")) == (0.0, 0.0)
    assert found(points_of(a_sample(), None, {}), Kind.GPU, "GPU-0").value("throttled_heat") is None


def test_the_busiest_disk_counts():
    before = replace(HOST, disks=(DiskReading("sda", 0, 0, 10.0), DiskReading("sdb", 0, 0, 5.0)))
    now = replace(HOST, at=NOW + timedelta(seconds=10), disks=(DiskReading("sda", 0, 0, 11.0), DiskReading("sdb", 0, 0, 14.0)))
    node = found(points_of(a_sample(host=now), a_sample(host=before), {}), Kind.NODE, "gpu01")
    assert node.value("disk_busy") == 0.9
    assert found(points_of(a_sample(host=now), None, {}), Kind.NODE, "gpu01").value("disk_busy") is None
