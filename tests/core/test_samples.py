"""Samples: their means, how they travel, and what of a stranger's is not believed."""
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOW, a_node
from gpufairy.core.believe import own_sessions
from gpufairy.core.errors import BadInput
from gpufairy.core.free_now import fit_to_use, free_now
from gpufairy.core.host_reading import HostReading, MountReading, Pressure
from gpufairy.core.mean_sample import mean_sample
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
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


def test_a_sample_travels_whole():
    host = HostReading(NOW, 8, 0.25, (0.5, 0.0), mounts=(MountReading("/", "sda1", "ext4", 10, 5),), cpu_pressure=Pressure(0.1, None), temperatures_c=(("cpu", 40.5),))
    sample = a_sample(host=host, sessions=(SessionReading("s1", 0.5, 10),), xids=(Xid("GPU-1", 79, NOW),), lost=(LostGpu(1, None, "gone"),), trouble=("x",))
    assert read_report(sent(sample), "gpu01", NOW)[1] == (sample,)


def test_fields_of_a_newer_agent_are_left_alone():
    plain = {**to_plain(a_sample()), "something_new": 1}
    assert read_report(json.dumps({"samples": [plain], "more": 2}).encode(), "gpu01", NOW)[1] == (a_sample(),)


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
        (a_sample(devices=tuple(replace(GPU, uuid=f"GPU-{n}") for n in range(2000))), "more than"),
        (a_sample(readings=(GpuReading("GPU-1", NOW, memory_used_bytes=2**70),)), "memory_used_bytes"),
        (a_sample(readings=(GpuReading("GPU-1", NOW, power_w=-5.0),)), "power_w"),
    ],
)
def test_what_cannot_be_is_not_believed(sample: NodeSample, words: str):
    with pytest.raises(BadInput, match=words):
        read_report(sent(sample), "gpu01", NOW)


@pytest.mark.parametrize(("wrong", "words"), [(timedelta(hours=1), "60 minutes ahead"), (timedelta(days=-4000), "behind")])
def test_a_host_with_a_wrong_clock_is_heard_and_put_right(wrong: timedelta, words: str):
    earlier, live = a_sample(at=NOW + wrong - timedelta(minutes=2)), a_sample(at=NOW + wrong)
    body = json.dumps({"samples": [to_plain(earlier), to_plain(live)]}).encode()
    first, last = read_report(body, "gpu01", NOW)[1]
    assert (first.at, last.at) == (NOW - timedelta(minutes=2), NOW)
    assert words in last.trouble[-1]


@pytest.mark.parametrize("late", [timedelta(days=9), timedelta(hours=-1)])
def test_what_was_kept_too_long_or_is_still_to_come_is_not_believed(late: timedelta):
    body = json.dumps({"samples": [to_plain(a_sample(at=NOW - late)), to_plain(a_sample())]}).encode()
    with pytest.raises(BadInput, match="at: "):
        read_report(body, "gpu01", NOW)


def test_a_session_is_believed_only_where_it_has_its_seat():
    claimed = replace(a_process(), owner=Owner("ann", KnownBy.SESSION, "s1", "brave-otter", "box"))
    sample = a_sample(processes=(claimed,), sessions=(SessionReading("s1", 1.0, 1),))
    assert own_sessions(sample, {"s1": "gpu01"}.get) == sample
    forged = own_sessions(sample, {"s1": "gpu02"}.get)
    assert forged.sessions == ()
    assert forged.processes[0].owner == Owner("ann", KnownBy.LABEL, container="box")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"samples": []}', b'{"samples": [{}]}', b"\xff", b"[" * 100_000, b'{"samples": [{"node": "gpu01", "at": "2026-11-15T08:00:00Z", "seconds": NaN}]}'])
def test_what_is_no_report_is_refused_in_words(body: bytes):
    with pytest.raises(BadInput, match="report of gpu01"):
        read_report(body, "gpu01", NOW)


def test_a_gpu_is_free_when_nobody_is_on_it():
    assert free_now(GPU, a_sample(processes=())).free is True


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
    assert (node.state, node.state_why) == (NodeState.FAULTY, "the NVIDIA driver has not answered for 12 s")


def test_a_lost_gpu_is_not_handed_out_and_its_neighbours_are():
    node = fit_to_use(a_real_node(), a_sample(lost=(LostGpu(1, "GPU-1", "fell off the bus"),)))
    assert (node.state, [gpu.uuid for gpu in node.gpus]) == (NodeState.READY, ["GPU-2"])


def test_a_simulated_node_needs_no_driver():
    node = a_node()
    assert fit_to_use(node, a_sample(gpus_known=False)) == node
