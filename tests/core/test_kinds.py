"""Kinds of GPU: a name stands for whole words of a kind, never for its beginning. An L4 is no L40."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.control.quotas import known_kind
from gpufairy.core.admit import check_ever_fits
from gpufairy.core.booking_choice import BookingAsk, offers
from gpufairy.core.errors import NeverFits, NoSuchThing
from gpufairy.core.fit import Refusal, fit, is_kind
from gpufairy.core.mig_demand import cut_for_waiting
from gpufairy.core.plan import plan
from gpufairy.core.quota import Allowances
from gpufairy.core.quota_check import check_alone
from gpufairy.core.quota_rules import Quota
from gpufairy.core.room import Room, rooms
from gpufairy.core.share import PARTS
from gpufairy.core.tariff import PART_MICROS_OF_A_GPU_HOUR, Rate
from gpufairy.core.week_use import WeekUse
from scenes import A100_CUTS, NOW, a_cluster, a_gpu, a_node, a_session, names, seated

HOUR = timedelta(hours=1)
# What there is, and a kind that its name begins with and that it is not.
BEGINS_ALIKE = [("A100-40GB", "A10"), ("A30-24GB", "A30-2"), ("L40", "L4"), ("L40S", "L40"), ("H200", "H20")]
begins_alike = pytest.mark.parametrize(("kind", "shorter"), BEGINS_ALIKE)


def a_node_of(*kinds, name="gpu01", **fields):
    gpus = tuple(a_gpu(index, name, kind=kind, **fields) for index, kind in enumerate(kinds))
    return replace(a_node(name, gpus=0), gpus=gpus)


@begins_alike
def test_a_kind_is_not_meant_by_its_beginning(kind, shorter):
    assert not is_kind(kind, shorter)
    assert not is_kind(shorter, kind)


@pytest.mark.parametrize("wanted", [None, "A100", "a100", "A100-40GB", "a100-40gb"])
def test_a_kind_is_meant_by_its_first_word_or_the_whole_in_any_case(wanted):
    assert is_kind("A100-40GB", wanted)


@pytest.mark.parametrize("wanted", ["40GB", "A100-80GB", "100", ""])
def test_a_kind_is_not_meant_by_another_word_of_it(wanted):
    assert not is_kind("A100-40GB", wanted)


@begins_alike
def test_nobody_is_seated_on_a_kind_that_only_begins_alike(kind, shorter):
    answer = fit(a_session(gpu_kind=shorter).request, Room.empty(a_node_of(kind)))
    assert answer == Refusal("gpu01", f"gpu01 has {kind}, not {shorter}")


@begins_alike
@pytest.mark.parametrize("share", ["1", "0.5", "1fgpu"])
def test_a_plan_waits_for_the_kind_that_was_asked_for(kind, shorter, share):
    waiting = [a_session("picky", share, gpu_kind=shorter), a_session("other", share, owner="bob")]
    assert names(plan(a_cluster([a_node_of(kind, kind)], waiting), NOW)) == ["other"]


@begins_alike
@pytest.mark.parametrize("share", ["1", "0.5", "1fgpu"])
def test_of_two_kinds_in_one_node_the_one_that_was_asked_for_is_given(kind, shorter, share):
    made = plan(a_cluster([a_node_of(kind, shorter)], [a_session("picky", share, gpu_kind=shorter)]), NOW)
    assert [gpu.kind for placed in made.placed for gpu in placed.seat.gpus] == [shorter]


def test_an_instance_is_cut_only_on_the_kind_that_was_asked_for():
    picky = a_session("picky", "mig:1g.5gb", gpu_kind="A10")
    waiting = [picky, a_session("other", "mig:1g.5gb", owner="bob")]
    assert names(plan(a_cluster([a_node(mig=True)], waiting), NOW)) == ["other"]


def test_no_gpu_is_cut_anew_for_one_who_asks_for_another_kind():
    node = a_node_of("A100-40GB", mig=A100_CUTS, instances=(), mig_auto=True)
    free = rooms([node], [])
    assert cut_for_waiting(free, [a_session(gpus="mig:1g.5gb", gpu_kind="A10")], {}, ()) is None
    assert cut_for_waiting(free, [a_session(gpus="mig:1g.5gb", gpu_kind="A100")], {}, ()) is not None


@begins_alike
def test_nobody_is_sent_away_for_one_who_asks_for_another_kind(kind, shorter):
    nodes = [a_node_of(kind)]
    guest = seated([a_session("guest", owner="bob", preemptible=True)], nodes, minutes_ago=60)
    assert plan(a_cluster(nodes, [a_session(gpu_kind=shorter)], guest), NOW).evictions == ()
    assert len(plan(a_cluster(nodes, [a_session(gpu_kind=kind)], guest), NOW).evictions) == 1


@begins_alike
def test_a_kind_that_is_not_here_is_refused_at_the_door_with_what_is(kind, shorter):
    with pytest.raises(NeverFits) as refused:
        check_ever_fits(a_session(gpu_kind=shorter).request, [a_node_of(kind)])
    assert "without --gpu-kind" in refused.value.next_step


@begins_alike
def test_a_quota_of_one_kind_says_nothing_of_one_that_begins_alike(kind, shorter):
    nodes = [a_node_of(kind, shorter)]
    left = Allowances((Quota("user:ann", shorter, gpu_parts=0),), (), WeekUse(), NOW, nodes)
    assert list(left.closed(a_session())) == ["GPU-gpu01-1"]


@begins_alike
def test_a_quota_of_a_kind_that_was_not_asked_for_refuses_nobody(kind, shorter):
    quotas = (Quota("user:ann", kind, gpu_parts=0),)
    check_alone(a_session(gpu_kind=shorter), quotas, [a_node_of(kind, shorter)])


@begins_alike
def test_a_quota_is_set_for_a_kind_that_is_here_by_its_name(kind, shorter):
    with pytest.raises(NoSuchThing):
        known_kind(shorter, [a_node_of(kind)])
    assert known_kind(kind.lower(), [a_node_of(kind)]) == kind


@begins_alike
def test_a_price_of_one_kind_is_not_asked_for_one_that_begins_alike(kind, shorter):
    rate = Rate(NOW, gpu_hour=3, kinds={shorter: 7})
    assert rate.of_gpus(kind, PART_MICROS_OF_A_GPU_HOUR) == 3
    assert rate.of_gpus(shorter, PART_MICROS_OF_A_GPU_HOUR) == 7


@begins_alike
def test_only_the_kind_that_was_asked_for_can_be_booked(kind, shorter):
    ask = BookingAsk("course", "kim", ("team:nlp",), 1, NOW + HOUR, NOW + 2 * HOUR, gpu_kind=shorter)
    found = offers(ask, [a_node_of(kind, shorter)], ())
    assert [one.gpu.kind for one in found] == [shorter]


def test_a_whole_gpu_of_one_kind_counts_for_the_quota_of_its_first_word():
    nodes = [a_node_of("A100-40GB", "A100-80GB", "L40")]
    left = Allowances((Quota("user:ann", "A100", gpu_parts=PARTS // 2),), (), WeekUse(), NOW, nodes)
    assert sorted(left.closed(a_session())) == ["GPU-gpu01-0", "GPU-gpu01-1"]
