"""What the tries of a self-test mean, and when one is due."""
from datetime import time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput
from gpufairy.core.isolation import OWN_SHARE, WORST_FIRST, Held, Side, judge, judged, overall
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Sharing
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading
from gpufairy.core.room import Room
from gpufairy.core.selftest_due import HALF, Busy, is_due, parse_nightly, shares_to_take
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import DEVICES, EVASION, MEMORY, SM, Attempt, IsolationTest, Verdict
from gpufairy.core.tried import TOLERANCE_BYTES, ProbeFacts, Tried, facts_from_plain, tried_from_plain, tried_to_plain
from scenes import GIB, NOW, a_gpu, a_node

MPS = Held(Sharing.MPS, 70 * GIB, PARTS // 2)
TIME = Held(Sharing.TIME, 70 * GIB, PARTS // 2)
MIG = Held(Sharing.MIG, 18 * GIB, PARTS // 7)
H200 = ProbeFacts("580.159.04", whole_sms=132)
INSTANCE = ProbeFacts("580.159.04", whole_sms=132, instance_sms=60)


def verdict(held=MPS, facts=H200, **found):
    of = {"got_bytes": MEMORY, "shown_bytes": MEMORY, "sms": SM, "reached": DEVICES}
    way = found.pop("way", "a way")
    return judge(Tried(way, next((of[name] for name in found if name in of), MEMORY), **found), held, facts).verdict


@pytest.mark.parametrize(
    ("found", "held", "facts", "expected"),
    [
        ({"got_bytes": 70 * GIB}, MPS, H200, "enforced"),
        ({"got_bytes": 70 * GIB + TOLERANCE_BYTES}, MPS, H200, "enforced"),
        ({"got_bytes": 70 * GIB + TOLERANCE_BYTES + 1}, MPS, H200, "failed"),
        ({"got_bytes": 71 * GIB}, TIME, H200, "accounted"),
        ({"got_bytes": 71 * GIB}, MIG, INSTANCE, "failed"),
        ({"got_bytes": 0, "words": "cuInit: CUDA error 46"}, MPS, H200, "enforced"),
        ({"error": "did not answer in 60 s"}, MPS, H200, "untried"),
        ({"shown_bytes": 70 * GIB}, MPS, H200, "enforced"),
        ({"shown_bytes": 140 * GIB}, MPS, H200, "failed"),
        ({"shown_bytes": 140 * GIB}, TIME, H200, "accounted"),
        ({"sms": 66}, MPS, H200, "enforced"),
        ({"sms": 68}, MPS, H200, "enforced"),
        ({"sms": 70}, MPS, H200, "failed"),
        ({"sms": 132}, TIME, H200, "accounted"),
        ({"sms": 132}, MPS, ProbeFacts(), "untried"),
        ({"sms": 0, "words": "cuInit: CUDA error 46"}, MPS, ProbeFacts(), "enforced"),
        ({"sms": 60}, MIG, INSTANCE, "enforced"),
        ({"sms": 61}, MIG, INSTANCE, "failed"),
        ({"reached": ()}, MPS, H200, "enforced"),
        ({"reached": ("/dev/nvidia1",)}, MPS, H200, "failed"),
        ({"reached": ("/dev/nvidia1",)}, TIME, H200, "failed"),
        ({"got_bytes": 69 * GIB, "way": OWN_SHARE}, MPS, H200, "enforced"),
        ({"got_bytes": 40 * GIB, "way": OWN_SHARE}, MPS, H200, "failed"),
        ({"got_bytes": 40 * GIB, "way": OWN_SHARE}, TIME, H200, "failed"),
        ({}, MPS, H200, "untried"),
    ],
)  # fmt: skip
def test_a_figure_means_what_the_way_of_sharing_makes_of_it(found, held, facts, expected):
    assert verdict(held, facts, **found) == expected


def test_the_words_carry_figures():
    assert judge(Tried("x", MEMORY, got_bytes=71 * GIB), MPS, H200).found == "got 71 GiB of a share of 70 GiB, and was not refused more"
    assert judge(Tried("x", MEMORY, got_bytes=69 * GIB), MPS, H200).found == "refused after 69 GiB of a share of 70 GiB"
    assert judge(Tried("x", SM, sms=132), MPS, H200).found == "132 of 132, its share is 66"
    assert judge(Tried("x", DEVICES, reached=("/dev/nvidia1",)), MPS, H200).found == "reached /dev/nvidia1"
    assert judge(Tried("x", MEMORY, error="there is no libcuda"), MPS, H200).found == "there is no libcuda"


@given(st.integers(0, 200 * GIB), st.integers(0, 200 * GIB), st.sampled_from([MPS, TIME, MIG]))
def test_more_memory_never_makes_a_better_verdict(less, more, held):
    less, more = sorted((less, more))
    assert WORST_FIRST.index(verdict(held, got_bytes=more)) <= WORST_FIRST.index(verdict(held, got_bytes=less))


@given(st.integers(0, 2**40), st.integers(2**20, 2**40), st.sampled_from(list(Sharing)))
def test_what_is_called_enforced_is_never_more_than_the_share_and_the_tolerance(got, share, sharing):
    found = verdict(Held(sharing, share, PARTS // 2), got_bytes=got)
    assert (found == "enforced") == (got <= share + TOLERANCE_BYTES)
    assert (found == "accounted") <= (sharing is Sharing.TIME)


def test_of_two_sessions_the_worse_counts_and_each_way_is_told_once():
    held = Tried("cuMemAlloc", MEMORY, got_bytes=70 * GIB)
    escaped, untried = Tried("cuMemAlloc", MEMORY, got_bytes=71 * GIB), Tried("cuMemAlloc", MEMORY, error="no")
    assert [a.verdict for a in judged([Side(MPS, H200, (held,)), Side(MPS, H200, (escaped,))])] == ["failed"]
    assert [a.verdict for a in judged([Side(MPS, H200, (escaped,)), Side(MPS, H200, (held,))])] == ["failed"]
    assert [a.verdict for a in judged([Side(MPS, H200, (untried,)), Side(MPS, H200, (held,))])] == ["enforced"]


def test_that_one_way_in_is_barred_says_nothing_where_nobody_is_let_in():
    barred = Tried("another MPS pipe folder", MEMORY, got_bytes=0, words="CUDA error 46")
    (alone,) = judged([Side(MPS, H200, (barred,))])
    assert (alone.verdict, alone.found) == ("untried", "nobody was let in: CUDA error 46")
    beside = judged([Side(MPS, H200, (barred, Tried("cuMemAlloc", MEMORY, got_bytes=GIB)))])
    assert [attempt.verdict for attempt in beside] == ["enforced", "enforced"]


def test_one_word_for_all_ways_is_the_worst_of_those_tried():
    def attempts(*verdicts, sharing=Sharing.MPS):
        return IsolationTest("gpu01", "GPU-1", sharing, NOW, tuple(Attempt("x", MEMORY, Verdict(one), "") for one in verdicts))

    assert overall(attempts("enforced", "untried"), MEMORY) == "enforced"
    assert overall(attempts("enforced", "accounted"), MEMORY) == "accounted"
    assert overall(attempts("accounted", "failed", "enforced"), MEMORY) == "failed"
    assert overall(attempts("untried"), MEMORY) == overall(attempts(), SM) == "untried"
    assert overall(attempts("enforced", sharing=Sharing.TIME), MEMORY) == "accounted"


def test_who_means_to_evade_is_only_accounted_and_held_where_nobody_is_let_in():
    got_more, barred = Tried("a changed loader", EVASION, got_bytes=200 * GIB), Tried("another", EVASION, got_bytes=0, words="CUDA error 46")
    plain = Tried("cuMemAlloc", MEMORY, got_bytes=GIB)
    assert [one.verdict for one in judged([Side(MPS, H200, (plain, got_more, barred))])] == ["enforced", "accounted", "enforced"]


def test_what_a_probe_says_comes_back_as_it_was():
    for tried in (Tried("a", MEMORY, got_bytes=0, words="no"), Tried("b", SM, sms=3), Tried("c", DEVICES, reached=("x", "y")), Tried("d", MEMORY, error="e")):
        assert tried_from_plain(tried_to_plain(tried)) == tried
    assert facts_from_plain({"driver": "580", "whole_sms": 132, "instance_sms": None}) == ProbeFacts("580", 132, None)


@pytest.mark.parametrize("plain", [{"way": 3}, {"way": "x", "got_bytes": -1}, {"way": "x", "got_bytes": "many"}, {"way": "x", "sms": True}, {"way": "x", "reached": "all"}])
def test_what_a_session_says_is_believed_in_its_shape_alone(plain):
    with pytest.raises(BadInput):
        tried_from_plain({"of": "memory", **plain})


def test_what_a_session_says_is_short_and_printable():
    tried = tried_from_plain({"way": "x\x1b[31m" + "y" * 1000, "of": "memory", "error": "\n"})
    assert len(tried.way) <= 300
    assert tried.way.isprintable()
    assert tried.error == " "


THREE = time(3)


def at(hours_ago):
    gpu = a_gpu()
    return {(gpu.uuid, Sharing.MPS): IsolationTest("gpu01", gpu.uuid, Sharing.MPS, NOW - timedelta(hours=hours_ago), ())}


@pytest.mark.parametrize(
    ("now_hour", "nightly", "tested_hours_before", "due"),
    [
        (12, THREE, None, True),  # never tested: at any hour
        (12, None, None, True),
        (12, THREE, 48, False),  # not in the middle of the day
        (3, THREE, 24, True),
        (5, THREE, 20, True),  # it may have been busy at three
        (5, THREE, 1, False),  # done this night
        (2, THREE, 24, False),  # its hour has not come
        (7, THREE, 24, False),  # and then the night is over
        (3, None, 24, False),
        (1, time(23, 30), 20, True),  # over midnight
        (3, THREE, -24 * 400, True),  # the clock was set back since: that was not this night
        (12, THREE, -24 * 400, False),
    ],
)  # fmt: skip
def test_it_is_due_once_a_night_and_at_once_on_a_gpu_that_nobody_knows(now_hour, nightly, tested_hours_before, due):
    now, gpu = NOW.replace(hour=now_hour), a_gpu()
    tests = {} if tested_hours_before is None else {
        (gpu.uuid, Sharing.MPS): IsolationTest("gpu01", gpu.uuid, Sharing.MPS, now - timedelta(hours=tested_hours_before), ())
    }  # fmt: skip
    assert is_due(gpu, tests, now, nightly) is due


def test_another_way_of_sharing_is_untested_and_a_simulated_gpu_is_never_due():
    assert is_due(a_gpu(sharing=Sharing.TIME), at(1), NOW, THREE)
    assert not is_due(a_gpu(simulated=True), {}, NOW, THREE)


def test_the_hour_is_read_or_refused_in_words():
    assert parse_nightly("03:00") == THREE
    assert parse_nightly("off") is None
    for wrong in ("3", "25:00", "03:60", "03:0", "noon", "", "-1:00"):
        with pytest.raises(BadInput, match=r"selftest\.nightly"):
            parse_nightly(wrong)


def seen(*uuids, on=(), known=True):
    """What the host tells of these devices, with a stranger's process on some of them."""
    devices = tuple(GpuDevice(uuid, str(number), number, "A100-40GB", 40 * GIB) for number, uuid in enumerate(uuids))
    readings = tuple(GpuReading(uuid, NOW, processes_known=known) for uuid in uuids)
    strangers = tuple(ProcessReading(GpuProcess(7, uuid, GIB), RunningProcess(7, 1, 1000, "python"), Owner("kim", KnownBy.ACCOUNT)) for uuid in on)
    return NodeSample("gpu01", NOW, 1.0, devices=devices, readings=readings, processes=strangers)


def test_only_a_gpu_that_is_wholly_free_is_halved():
    room = Room.empty(a_node()).gpus[0]
    assert shares_to_take(room, seen(room.gpu.uuid)) == (HALF, HALF)
    assert shares_to_take(room, seen(room.gpu.uuid, on=[room.gpu.uuid])) == Busy("kim has 1 GiB on it", may_pass=True)
    room.take(GpuSeat(0, room.gpu.uuid, 1, GIB))
    assert shares_to_take(room, seen(room.gpu.uuid)) == Busy("sessions are on it")


def test_a_gpu_of_which_nobody_knows_who_is_on_it_is_not_taken_for_free():
    room = Room.empty(a_node()).gpus[0]
    assert shares_to_take(room, None) == Busy("who is on it is not known")
    assert shares_to_take(room, seen("GPU-another")) == Busy("who is on it is not known")
    assert shares_to_take(room, seen(room.gpu.uuid, known=False)) == Busy("who is on it could not be read", may_pass=True)


def test_a_gpu_that_mps_lets_nobody_into_is_not_taken_while_that_is_so():
    room = Room.empty(a_node()).gpus[0]
    for gpu, why in (
        (a_gpu(closed="it hangs"), "it hangs"),
        (a_gpu(sharing=Sharing.TIME, mps_stays="it does not end"), "it does not end"),
    ):
        room.gpu = gpu
        assert shares_to_take(room, seen(gpu.uuid)) == Busy(why, may_pass=True)
    room.gpu = a_gpu(mps_stays="it does not end")
    assert shares_to_take(room, seen(room.gpu.uuid)) == (HALF, HALF)


def test_of_a_cut_gpu_free_instances_are_taken():
    cut = (MigInstance("3g.20gb", 0, 4, "MIG-a"), MigInstance("2g.10gb", 4, 2, "MIG-b"), MigInstance("1g.5gb", 6, 1, "MIG-c"))
    node = a_node(mig=True)
    whole = Room.empty(node)
    room = whole.gpus[0]
    room.gpu = a_gpu(mig=node.gpus[0].mig, instances=cut)
    sample = seen("MIG-a", "MIG-b", "MIG-c")
    assert [share.profile for share in shares_to_take(room, sample)] == ["3g.20gb", "2g.10gb"]
    # Which of two equal instances a session gets is not said, so one with a stranger on it keeps both from being taken.
    assert shares_to_take(room, seen("MIG-a", "MIG-b", "MIG-c", on=["MIG-c"])) == Busy("kim has 1 GiB on it", may_pass=True)
    for start, size, profile in ((0, 4, "3g.20gb"), (4, 2, "2g.10gb")):
        whole.take(Seat("gpu01", 0, 0, (GpuSeat(0, room.gpu.uuid, 1, GIB, profile=profile, start=start, size=size),)))
    assert [share.profile for share in shares_to_take(room, sample)] == ["1g.5gb"]
    whole.take(Seat("gpu01", 0, 0, (GpuSeat(0, room.gpu.uuid, 1, GIB, profile="1g.5gb", start=6, size=1),)))
    assert shares_to_take(room, sample) == Busy("no MIG instance of it is free")
