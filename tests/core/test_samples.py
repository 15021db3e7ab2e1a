"""Samples: their means, how they travel, and what of a stranger's is not believed."""
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOW, a_node
from gpufairy.core.believe import heartbeat, own_gpus, own_sessions
from gpufairy.core.errors import BadInput
from gpufairy.core.free_now import fit_to_use, free_now
from gpufairy.core.host_reading import HostReading, MountReading, Pressure
from gpufairy.core.mean_sample import mean_sample
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess, serves_mps
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, LostGpu, Xid
from gpufairy.core.sample_plain import to_plain
from gpufairy.wire.report import read_report

GPU = GpuDevice("GPU-1", "0", 0, "A100-40GB", 40 * 2**30)


def a_process(pid: int = 7, user: str | None = "ann", active: bool | None = True, utilisation: float | None = 0.5) -> ProcessReading:
    on = GpuProcess(pid, GPU.uuid, 2**30, utilisation)
    return ProcessReading(on, RunningProcess(pid, 100, 1000, "python"), Owner(user, KnownBy.ACCOUNT), active)


def a_sample(utilisation: float | None = 0.5, **fields: object) -> NodeSample:
    reading = GpuReading(GPU.uuid, NOW, utilisation, 2**30, power_w=60.0, throttled_by=())
    return replace(NodeSample("gpu01", NOW, 1.0, None, (GPU,), (reading,), (a_process(),)), **fields)


def sent(sample: NodeSample) -> bytes:
    return json.dumps({"version": "1", "samples": [to_plain(sample)]}).encode()


def heard(body: bytes) -> list[NodeSample]:
    return [one.sample for one in read_report(body, "gpu01", NOW).heard]


def test_a_mean_is_over_what_was_known_and_unknown_stays_unknown():
    assert mean_sample([a_sample(0.2), a_sample(None), a_sample(0.4)]).readings[0].utilisation == pytest.approx(0.3)
    assert mean_sample([a_sample(None), a_sample(None)]).readings[0].utilisation is None


def test_a_mean_stands_for_all_its_seconds_and_keeps_every_error():
    first, second = (a_sample(xids=(Xid("GPU-1", code, NOW),)) for code in (31, 79))
    both = mean_sample([first, second])
    assert (both.seconds, [xid.code for xid in both.xids]) == (2.0, [31, 79])


def test_a_driver_that_hangs_now_is_not_covered_by_what_it_said_before():
    hung = a_sample(gpus_known=False, devices=(), readings=(), processes=())
    assert mean_sample([a_sample(), hung]).readings == ()
    assert not mean_sample([a_sample(), hung]).gpus_known


def test_a_mean_stands_for_no_second_in_which_the_driver_was_silent():
    silent = a_sample(gpus_known=False, seconds=15.0, devices=(), readings=(), processes=())
    late = mean_sample([silent, silent, silent, a_sample(0.0)])
    assert (late.gpus_known, late.seconds, late.readings[0].utilisation) == (True, 1.0, 0.0)
    assert mean_sample([a_sample(), a_sample(), silent]).seconds == 15.0, "nor for one in which it answered, once it is silent"


def test_a_sample_travels_whole():
    host = HostReading(NOW, 8, 0.25, (0.5, 0.0), mounts=(MountReading("/", "sda1", "ext4", 10, 5),), cpu_pressure=Pressure(0.1, None), temperatures_c=(("cpu", 40.5),))
    sample = a_sample(host=host, sessions=(SessionReading("s1", 0.5, 10),), xids=(Xid("GPU-1", 79, NOW),), lost=(LostGpu(1, None, "gone"),), trouble=("x",))
    assert heard(sent(sample)) == [sample]


def test_fields_of_a_newer_agent_are_left_alone():
    plain = {**to_plain(a_sample()), "something_new": 1}
    assert heard(json.dumps({"samples": [plain], "more": 2}).encode()) == [a_sample()]


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (a_sample(node="gpu02"), "gpu02"),
        (a_sample(at=NOW.replace(tzinfo=None)), "zone"),
        (a_sample(seconds=-1.0), "seconds"),
        (a_sample(1.5), "utilisation"),
        (a_sample(-0.1), "utilisation"),
        (a_sample(devices=(GPU, GPU)), "twice"),
        (a_sample(devices=()), "no device"),
        (a_sample(devices=tuple(replace(GPU, uuid=f"GPU-{n}") for n in range(257))), "more than"),
        (a_sample(trouble=("x",) * 1000), "more than"),
        (a_sample(xids=(Xid("GPU-1", 79, NOW),) * 5000), "more than"),
        (a_sample(xids=(Xid("GPU-1", -1, NOW),)), "code"),
        (a_sample(host=HostReading(NOW, cores=(0.5, 1.5))), "cores"),
        (a_sample(host=HostReading(NOW, cores=(-0.1,))), "cores"),
        (a_sample(host=HostReading(NOW, temperatures_c=(("cpu", 1e300),))), "temperatures_c"),
        (a_sample(host=HostReading(NOW, temperatures_c=(("cpu", -1000.0),))), "temperatures_c"),
        (a_sample(readings=(GpuReading("GPU-1", NOW, temperature_c=1e300),)), "temperature_c"),
        (a_sample(readings=(GpuReading("GPU-1", NOW, memory_used_bytes=2**70),)), "memory_used_bytes"),
        (a_sample(readings=(GpuReading("GPU-1", NOW, power_w=-5.0),)), "power_w"),
    ],
)
def test_what_cannot_be_is_not_believed(sample: NodeSample, words: str):
    report = read_report(sent(sample), "gpu01", NOW)
    assert (report.heard, report.live) == ((), None)
    [refused] = report.refused
    assert words in refused.why


@pytest.mark.parametrize(
    "bad",
    [
        {"node": "gpu01", "at": "yesterday", "seconds": 1}, {}, {"node": "gpu02", "at": NOW.isoformat(), "seconds": 1.0},
        {"node": "gpu01", "at": NOW.isoformat(), "seconds": 10**400}, {"node": "gpu01", "at": "2020-01-01T00:00:00Z", "seconds": 1.0},
        {"node": "gpu01", "at": "9999-12-31T23:59:59Z", "seconds": 1.0}, {"node": "gpu01", "at": "2026-11-15T08:00:00", "seconds": 1.0},
        {"node": "gpu01", "at": NOW.isoformat(), "seconds": float("nan")},
    ],
    ids=str,
)  # fmt: skip
def test_one_impossible_sample_costs_no_other(bad: dict[str, object]):
    good = [to_plain(a_sample(at=NOW - timedelta(seconds=late))) for late in (20, 10, 0)]
    report = read_report(json.dumps({"samples": [good[0], bad, *good[1:]]}).encode(), "gpu01", NOW)
    assert [one.sample.at for one in report.heard] == [NOW - timedelta(seconds=late) for late in (20, 10, 0)]
    assert report.live == a_sample()
    [refused] = report.refused
    assert (refused.at is None) == (not bad)


@pytest.mark.parametrize("bad", [{}, {"node": "gpu02", "at": NOW.isoformat(), "seconds": 1.0}, {"node": "gpu01", "at": NOW.isoformat(), "seconds": -1.0}], ids=str)
def test_an_impossible_sample_of_now_costs_no_late_one(bad: dict[str, object]):
    good = [to_plain(a_sample(at=NOW - timedelta(seconds=late))) for late in (20, 10, 5)]
    last = read_report(json.dumps({"samples": [*good, bad]}).encode(), "gpu01", NOW)
    assert (len(last.heard), last.live, len(last.refused)) == (3, None, 1)


def test_what_is_told_of_refused_samples_is_short():
    sample = {**to_plain(a_sample()), "seconds": "x" * 900, "at": "y" * 900}
    report = read_report(json.dumps({"samples": [sample] * 64}).encode(), "gpu01", NOW)
    assert len(report.refused) == 64
    assert max(len(one.why) + len(one.at or "") for one in report.refused) <= 400


def test_a_host_whose_report_cannot_be_is_alive_and_nothing_of_it_is_read():
    beat = heartbeat("gpu01", NOW + timedelta(seconds=5), a_sample(host=HostReading(NOW)), "utilisation: 1.5 is out of range")
    assert (beat.devices, beat.readings, beat.processes, beat.host, beat.gpus_known) == ((GPU,), (), (), None, False)
    assert beat.trouble == ("what it told cannot be: utilisation: 1.5 is out of range",)
    assert free_now(GPU, beat).free is None
    assert heartbeat("gpu01", NOW, None, "x").gpus_known is False


@pytest.mark.parametrize(("wrong", "words"), [(timedelta(hours=1), "60 minutes ahead"), (timedelta(days=-4000), "behind")])
def test_a_host_with_a_wrong_clock_is_heard_and_put_right(wrong: timedelta, words: str):
    earlier, live = a_sample(at=NOW + wrong - timedelta(minutes=2)), a_sample(at=NOW + wrong)
    body = json.dumps({"samples": [to_plain(earlier), to_plain(live)]}).encode()
    first, last = heard(body)
    assert (first.at, last.at) == (NOW - timedelta(minutes=2), NOW)
    assert words in last.trouble[-1]


@pytest.mark.parametrize("late", [timedelta(days=9), timedelta(hours=-1)])
def test_what_was_kept_too_long_or_is_still_to_come_is_not_believed(late: timedelta):
    body = json.dumps({"samples": [to_plain(a_sample(at=NOW - late)), to_plain(a_sample())]}).encode()
    report = read_report(body, "gpu01", NOW)
    assert report.live == a_sample()
    assert [one.why.startswith("at: ") for one in report.refused] == [True]


def test_a_clock_that_stays_wrong_moves_what_it_tells_by_the_same_each_time():
    hour = timedelta(hours=1)
    first = read_report(sent(a_sample(at=NOW - hour)), "gpu01", NOW)
    slow = timedelta(seconds=3)  # it was on its way for so long
    again = read_report(sent(a_sample(at=NOW - hour)), "gpu01", NOW + slow, first.clock_wrong_by)
    assert again.heard == first.heard
    assert first.heard[0].sent_at == NOW - hour
    fixed = read_report(sent(a_sample(at=NOW + slow)), "gpu01", NOW + slow, first.clock_wrong_by)
    assert (fixed.clock_wrong_by, fixed.heard[0].sample.at) == (timedelta(), NOW + slow)
    other = read_report(sent(a_sample(at=NOW - 2 * hour)), "gpu01", NOW, first.clock_wrong_by)
    assert other.clock_wrong_by == 2 * hour


def test_a_session_is_believed_only_where_it_has_its_seat():
    claimed = replace(a_process(), owner=Owner("ann", KnownBy.SESSION, "s1", "brave-otter", "box"))
    sample = a_sample(processes=(claimed,), sessions=(SessionReading("s1", 1.0, 1),))
    assert own_sessions(sample, {"s1": "gpu01"}.get) == sample
    forged = own_sessions(sample, {"s1": "gpu02"}.get)
    assert forged.sessions == ()
    assert forged.processes[0].owner == Owner("ann", KnownBy.LABEL, container="box")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"samples": []}', b'{"samples": [1]}', b"\xff", b"[" * 100_000, b'{"samples": [' + b"{}," * 64 + b"{}]}", b'{"samples": [{"a": ' + b"[" * 500_000])
def test_what_is_no_report_is_refused_in_words(body: bytes):
    with pytest.raises(BadInput, match="report of gpu01"):
        read_report(body, "gpu01", NOW)


def nobody_on_it(memory_bytes: int | None = 2**20, utilisation: float | None = 0.0) -> NodeSample:
    return a_sample(readings=(GpuReading(GPU.uuid, NOW, utilisation, memory_bytes),), processes=())


def test_a_gpu_is_free_when_nobody_is_on_it():
    assert free_now(GPU, nobody_on_it()).free is True
    assert free_now(GPU, nobody_on_it(None, None)).free is True


@pytest.mark.parametrize(("memory_bytes", "utilisation"), [(130 * 2**30, 0.0), (2**30, None), (0, 0.5), (None, 1.0)])
def test_a_gpu_in_use_by_something_that_is_not_seen_is_not_free(memory_bytes: int | None, utilisation: float | None):
    now = free_now(GPU, nobody_on_it(memory_bytes, utilisation))
    assert (now.free, now.why) == (None, "in use by something that is not seen")


CUT = replace(GPU, mig=True)
INSTANCES = tuple(GpuDevice(f"MIG-{name}", f"0_{name}_0", 0, GPU.kind, 5 * 2**30, parent=GPU.uuid, profile="1g.5gb") for name in "ab")


def a_cut_gpu(*on: str, known: bool = True) -> NodeSample:
    readings = tuple(GpuReading(one.uuid, NOW, processes_known=known) for one in INSTANCES)
    processes = tuple(replace(a_process(), on=GpuProcess(7, uuid, 2**30)) for uuid in on)
    return a_sample(devices=(CUT, *INSTANCES), readings=readings, processes=processes)


def test_a_cut_gpu_is_free_when_all_its_instances_are():
    assert free_now(CUT, a_cut_gpu()).free is True
    one = free_now(CUT, a_cut_gpu("MIG-a"))
    assert (one.free, one.why) == (False, "1 of 2 MIG instances are free")


def test_an_instance_that_a_session_holds_is_not_free_though_nothing_runs_there():
    held = free_now(CUT, a_cut_gpu(), ["ann"], {"MIG-a": ["ann"]})
    assert (held.free, held.why) == (False, "1 of 2 MIG instances are free")
    both = free_now(CUT, a_cut_gpu(), ["ann", "bob"], {"MIG-a": ["ann"], "MIG-b": ["bob"]})
    assert (both.free, both.why) == (False, "0 of 2 MIG instances are free")


def test_a_cut_gpu_of_which_somebody_holds_an_unnamed_part_is_not_free():
    assert free_now(CUT, a_cut_gpu(), ["ann"]).why == "held by ann"


def test_a_cut_gpu_with_no_free_instance_and_an_unknown_one_is_not_known():
    assert free_now(CUT, a_cut_gpu(known=False)).free is None
    assert free_now(CUT, a_cut_gpu("MIG-a", known=False)).free is None


def test_a_gpu_with_an_idle_process_is_taken_and_said_to_be_idle():
    now = free_now(GPU, a_sample(processes=(a_process(active=False),)))
    assert (now.free, now.idle) == (False, True)
    assert "ann" in now.why
    assert "computes nothing" in now.why


@pytest.mark.parametrize("active", [True, None])
def test_a_process_that_may_be_at_work_is_not_called_idle(active: bool | None):
    assert not free_now(GPU, a_sample(processes=(a_process(active=active),))).idle


def test_not_known_is_never_free():
    assert free_now(GPU, a_sample(gpus_known=False, processes=())).free is None
    assert free_now(GPU, a_sample(lost=(LostGpu(0, "GPU-1", "fell off the bus"),), processes=())).free is None
    unread = tuple(replace(reading, processes_known=False) for reading in a_sample().readings)
    assert free_now(GPU, a_sample(readings=unread, processes=())).free is None


def test_a_gpu_that_a_session_holds_is_not_free_even_if_nothing_runs_there():
    now = free_now(GPU, a_sample(processes=()), ["bob"])
    assert (now.free, now.why) == (False, "held by bob")


def a_real_node() -> Node:
    return Node("gpu01", 4000, 2**34, tuple(Gpu(index, f"GPU-{index}", "A100-40GB", 40 * 2**30) for index in (1, 2)))


def test_while_the_driver_says_nothing_no_gpu_of_the_node_is_handed_out():
    node = fit_to_use(a_real_node(), a_sample(gpus_known=False, trouble=("the NVIDIA driver has not answered for 12 s",)))
    assert (node.state, node.state_why) == (NodeState.FAULTY, "its NVIDIA driver does not answer")


def test_a_lost_gpu_is_not_handed_out_and_its_neighbours_are():
    node = fit_to_use(a_real_node(), a_sample(lost=(LostGpu(1, "GPU-1", "fell off the bus"),)))
    assert (node.state, [gpu.uuid for gpu in node.gpus]) == (NodeState.READY, ["GPU-2"])


def test_a_simulated_node_needs_no_driver():
    node = a_node()
    assert fit_to_use(node, a_sample(gpus_known=False)) == node


def test_nobody_speaks_for_the_gpu_of_another_host():
    assert own_gpus(a_sample(), {"GPU-9"}) == a_sample()
    claimed = own_gpus(a_sample(), {GPU.uuid})
    assert (claimed.devices, claimed.readings, claimed.processes) == ((), (), ())
    assert "another host" in claimed.trouble[-1]


def test_a_gpu_with_nothing_on_it_but_the_server_of_mps_is_free():
    server = ProcessReading(GpuProcess(7, GPU.uuid, 66 * 2**20), RunningProcess(7, 1, 0, "nvidia-cuda-mps"), Owner("root", KnownBy.MPS))
    assert free_now(GPU, replace(nobody_on_it(), processes=(server,))).free is True
    assert not server.owner.outside
    assert serves_mps(server.process)
    assert not serves_mps(replace(server.process, uid=1000))
