"""A GPU as a bar: what lies where, what is said of it, and what is not claimed where nobody knows."""
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import GIB, NOW, a_gpu, a_gpu_seat, a_node
from gpufairy.core.holders import Holder
from gpufairy.core.mig import MigInstance
from gpufairy.core.reading import GpuReading
from gpufairy.core.room import GpuRoom
from gpufairy.core.share import PARTS
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.web.gauges import gauges
from gpufairy.web.gpu_bars import Looked, bar, kinds

HALF, QUARTER = PARTS // 2, PARTS // 4


def plain(words):
    return words.replace("\N{NO-BREAK SPACE}", " ")


def holder(owner, parts, session="otter", **seat):
    return Holder(session, owner, a_gpu_seat(0, parts, **seat), NOW - timedelta(hours=3))


def a_bar(*holders, gpu=None, looked=Looked("ann", NOW)):
    gpu = gpu or a_gpu(0)
    room = GpuRoom(gpu, PARTS, gpu.memory_bytes)
    for one in holders:
        room.take(one.gpu)
    return bar(room, holders, looked)


def a_reading(**fields):
    return GpuReading("GPU-simulated-0", NOW, **fields)


def test_holders_lie_side_by_side_and_what_is_left_is_free():
    made = a_bar(holder("bob", QUARTER), holder("ann", QUARTER, "mine"))
    assert [(one.left, one.width) for one in made.segments] == [(0.0, 25.0), (25.0, 25.0)]
    assert plain(made.free_label) == "0.5 free"


def test_mine_is_named_and_linked_and_others_are_told_by_their_user_alone():
    bobs, mine = a_bar(holder("bob", HALF, "secret-name"), holder("ann", HALF, "mine")).segments
    assert (bobs.href, plain(bobs.label)) == (None, "bob · 3 h")
    assert "secret-name" not in bobs.said
    assert (mine.href, plain(mine.label)) == ("/sessions/mine", "mine · 3 h")


def test_a_picture_with_a_link_in_it_is_a_group_for_those_who_hear_it():
    assert a_bar(holder("bob", HALF)).role == "img"
    assert a_bar(holder("ann", HALF)).role == "group"


def test_what_is_only_accounted_is_marked_and_said():
    loose, firm = holder("bob", HALF), holder("bob", HALF, accounted=(), enforced=("memory", "sm"))
    assert (a_bar(loose).segments[0].loose, a_bar(firm).segments[0].loose) == (True, False)
    assert "only accounted" in a_bar(loose).said


def test_use_is_told_of_one_who_is_alone_and_of_each_only_where_their_processes_are_known():
    readings = {"GPU-simulated-0": a_reading(memory_used_bytes=10 * GIB)}
    alone = a_bar(holder("bob", HALF), looked=Looked("ann", NOW, readings))
    assert alone.segments[0].used == 50.0
    both = (holder("bob", HALF, "his"), holder("ann", HALF, "mine"))
    assert [one.used for one in a_bar(*both, looked=Looked("ann", NOW, readings)).segments] == [0.0, 0.0]
    told = Looked("ann", NOW, readings, {("GPU-simulated-0", "ann", "mine"): 5 * GIB})
    assert [one.used for one in a_bar(*both, looked=told).segments] == [0.0, 25.0]


def test_a_guest_sits_in_the_lower_half_of_what_another_lends():
    lender, guest = a_bar(holder("bob", PARTS), holder("ann", HALF, "guest", borrowed=True)).segments
    assert (lender.guest, lender.width) == (False, 100.0)
    assert (guest.guest, guest.left, guest.width) == (True, 0.0, 50.0)
    assert "lent by an idle session" in guest.said


def test_a_mig_cut_has_joints_and_its_free_pieces_have_names():
    table = mig_tables()["A100-40GB"]
    instances = (MigInstance("3g.20gb", 0, 4, "MIG-a"), MigInstance("2g.10gb", 4, 2, "MIG-b"))
    gpu = replace(a_gpu(0), mig=table, instances=instances)
    made = a_bar(holder("bob", PARTS * 3 // 7, profile="3g.20gb", start=0, size=4, instance_uuid="MIG-a"), gpu=gpu)
    assert [(one.left, one.width) for one in made.segments] == [(0.0, 50.0)]
    assert [(one.left, one.width, one.label) for one in made.pieces] == [(50.0, 25.0, "2g.10gb")]
    assert made.joints == (50.0, 75.0)
    assert "a 2g.10gb at slice 4 is free" in made.said


def test_a_gpu_at_work_that_nobody_was_given_says_so():
    idle, busy = a_reading(utilisation=0.0, memory_used_bytes=0), a_reading(utilisation=0.9, memory_used_bytes=30 * GIB)
    assert a_bar(looked=Looked("ann", NOW, {"GPU-simulated-0": idle})).notes == ()
    assert a_bar(looked=Looked("ann", NOW, {"GPU-simulated-0": busy})).notes == ("in use, by nobody it was given to",)


@pytest.mark.parametrize(("reading", "memory", "heat", "hot"), [
    (None, "40 GiB", "", False),
    (a_reading(), "40 GiB", "", False),
    (a_reading(memory_used_bytes=0, temperature_c=33.4, power_w=52.2), "0.0 / 40 GiB", "33 °C · 52 W", False),
    (a_reading(memory_used_bytes=33 * GIB, temperature_c=86.0), "33.0 / 40 GiB", "86 °C", True),
    (a_reading(temperature_c=86.0, slowdown_c=95.0), "40 GiB", "86 °C", False),
])  # fmt: skip
def test_figures_keep_their_units_and_what_is_not_known_is_no_zero(reading, memory, heat, hot):
    read = gauges(reading, 40 * GIB)
    assert (plain(read.memory), plain(read.heat), read.hot) == (memory, heat, hot)
    assert (read.work is None) == (reading is None or reading.utilisation is None)


def test_kinds_are_counted_and_simulated_ones_are_told():
    assert [(plain(words), simulated) for words, simulated in kinds(a_node(gpus=2))] == [("2 × A100-40GB", True)]
