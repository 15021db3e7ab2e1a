"""How GPUs are shared: rules by GPU, kind and all; words from tests alone; memory asked for apart."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.admit import check_ever_fits
from gpufairy.core.cluster import Totals
from gpufairy.core.errors import NeverFits
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.node import Node, Sharing
from gpufairy.core.room import Room
from gpufairy.core.session import Seat
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, SM, Attempt, IsolationTest, ShareRule, Verdict, is_fraction, latest, ruled, sm_percent
from gpufairy.core.turn import charge_parts
from scenes import A100_CUTS, GIB, a_gpu, a_session

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
REAL = a_gpu(simulated=False)


def node_of(*gpus):
    return Node("gpu01", 16000, 128 * GIB, gpus)


def a_test(gpu=REAL, sharing=Sharing.MPS, at=NOW, **verdicts):
    attempts = tuple(Attempt("a way", of, Verdict(verdict), "found") for of, verdict in verdicts.items())
    return IsolationTest("gpu01", gpu.uuid, sharing, at, attempts)


def seat_on(node, taken=(), **asked):
    room = Room.empty(node)
    for other in taken:
        found = fit(other.request, room)
        assert isinstance(found, Seat)
        room.take(found)
    return fit(a_session(**asked).request, room)


def test_the_rule_of_the_very_gpu_counts_before_that_of_its_kind_and_that_before_the_one_for_all():
    other = replace(REAL, index=1, uuid="GPU-other")
    all_rules = ShareRule("*", 2 * PARTS), ShareRule("A100-40GB", 5 * PARTS), ShareRule("GPU-other", sharing=Sharing.TIME)
    rules = {rule.of: rule for rule in all_rules}
    first, second = ruled(node_of(REAL, other), rules, {}).gpus
    assert (first.fgpu_parts, first.sharing) == (5 * PARTS, Sharing.MPS)
    assert (second.fgpu_parts, second.sharing) == (5 * PARTS, Sharing.TIME)


def test_without_a_test_nothing_is_said_to_be_enforced():
    [gpu] = ruled(node_of(REAL), {}, {}).gpus
    seat = seat_on(node_of(gpu), gpus="0.5")
    assert (seat.gpus[0].enforced, seat.gpus[0].accounted) == ((), (MEMORY, SM))


def test_what_every_way_failed_to_get_round_is_enforced():
    test = a_test(memory="enforced", sm="enforced", devices="enforced")
    [gpu] = ruled(node_of(REAL), {}, latest([test])).gpus
    assert seat_on(node_of(gpu), gpus="0.5").gpus[0].enforced == (MEMORY, SM)
    assert seat_on(node_of(gpu), gpus="1").gpus[0].enforced == (MEMORY, SM)


def test_one_way_round_is_enough_to_say_accounted():
    held = Attempt("cuMemAlloc", MEMORY, Verdict.ENFORCED, "")
    round_it = Attempt("a static binary", MEMORY, Verdict.FAILED, "")
    test = replace(a_test(sm="enforced"), attempts=(held, round_it, Attempt("smid", SM, Verdict.ENFORCED, "")))
    [gpu] = ruled(node_of(REAL), {}, latest([test])).gpus
    assert seat_on(node_of(gpu), gpus="0.5").gpus[0].accounted == (MEMORY,)


def test_what_could_not_be_tried_says_nothing_and_a_test_of_nothing_enforces_nothing():
    assert a_test(memory="enforced").holds(MEMORY)
    assert not a_test(memory="untried").holds(MEMORY)
    assert not a_test(memory="enforced").holds(SM)


def test_a_test_counts_for_the_way_of_sharing_it_was_made_in():
    test = a_test(sharing=Sharing.MPS, memory="enforced", sm="enforced")
    [gpu] = ruled(node_of(REAL), {"*": ShareRule("*", sharing=Sharing.TIME)}, latest([test])).gpus
    assert gpu.held_to == ()


def test_the_newest_test_counts():
    old, new = a_test(memory="enforced"), a_test(memory="failed", at=NOW + timedelta(days=1))
    assert not latest([new, old])[REAL.uuid, Sharing.MPS].holds(MEMORY)


def test_a_simulated_gpu_enforces_nothing_whatever_a_test_says():
    card = a_gpu(simulated=True)
    [gpu] = ruled(node_of(card), {}, latest([a_test(gpu=card, memory="enforced", devices="enforced")])).gpus
    assert (gpu.held_to, gpu.alone) == ((), False)


def test_an_instance_of_a_gpu_in_mig_mode_is_judged_by_the_test_of_instances():
    card = replace(REAL, mig=A100_CUTS)
    [gpu] = ruled(node_of(card), {}, latest([a_test(gpu=card, sharing=Sharing.MIG, memory="enforced", sm="enforced")])).gpus
    seat = seat_on(node_of(gpu), gpus="mig:1g.5gb")
    assert seat.gpus[0].enforced == (MEMORY, SM)
    assert not is_fraction(seat.gpus[0])


def test_memory_asked_for_apart_leaves_the_rest_of_it_to_others():
    taken = [a_session(gpus="0.5", gpu_memory_bytes=10 * GIB)]
    seat = seat_on(node_of(REAL), taken, gpus="0.5", gpu_memory_bytes=30 * GIB)
    assert isinstance(seat, Seat)
    assert seat.gpus[0].memory_bytes == 30 * GIB


def test_memory_that_is_not_free_is_a_refusal_in_words():
    taken = [a_session(gpus="0.25", gpu_memory_bytes=35 * GIB)]
    refused = seat_on(node_of(REAL), taken, gpus="0.5")
    assert refused == Refusal("gpu01", "gpu01 has at most 5 GiB of one GPU's memory free, 20 GiB asked")


def test_a_gpu_of_which_somebody_has_memory_is_not_wholly_free():
    refused = seat_on(node_of(REAL), [a_session(gpus="0.25", gpu_memory_bytes=GIB)], gpus="1")
    assert refused == Refusal("gpu01", "gpu01 has 0 of 1 GPUs wholly free, 1 asked")


def test_whoever_takes_most_of_the_memory_is_charged_for_most_of_the_gpu():
    seat = seat_on(node_of(REAL), gpus="0.1", gpu_memory_bytes=36 * GIB, cpus_milli=1, memory_bytes=1)
    assert charge_parts(seat, Totals.of([node_of(REAL)])) == PARTS * 9 // 10


def in_turns(seat):
    """As one that was given out before the way of sharing was changed, or was adopted when the rule was lost."""
    return replace(seat, gpus=tuple(replace(gpu, sharing=Sharing.TIME) for gpu in seat.gpus))


def test_nobody_is_put_by_mps_beside_those_who_share_a_gpu_in_turns():
    other = replace(REAL, index=1, uuid="GPU-other")
    room, request = Room.empty(node_of(REAL, other)), a_session(gpus="0.25").request
    first = in_turns(fit(request, room))
    room.take(first)
    assert fit(request, room.copy()).gpus[0].uuid == "GPU-other"
    alone = Room.empty(node_of(REAL))
    alone.take(first)
    assert fit(request, alone) == Refusal("gpu01", "gpu01 has GPUs with room, but those on them share by time, and mps is the way now")
    alone.give_back(first)
    assert isinstance(fit(request, alone), Seat)


def test_a_simulated_gpu_is_shared_in_any_way():
    room, request = Room.empty(node_of(a_gpu(simulated=True))), a_session(gpus="0.25").request
    room.take(in_turns(fit(request, room)))
    assert isinstance(fit(request, room), Seat)


def test_a_test_session_goes_to_its_gpu_and_no_other():
    other = replace(REAL, index=1, uuid="GPU-other")
    assert seat_on(node_of(REAL, other), gpus="0.5", on_gpu="GPU-other").gpus[0].uuid == "GPU-other"
    assert seat_on(node_of(REAL), gpus="0.5", on_gpu="GPU-other") == Refusal("gpu01", "gpu01 has no GPU GPU-other")


def test_a_gpu_that_takes_no_newcomers_is_passed_over_and_says_why():
    full, other = replace(REAL, closed="48 programs use it"), replace(REAL, index=1, uuid="GPU-other")
    assert seat_on(node_of(full, other), gpus="0.5").gpus[0].uuid == "GPU-other"
    assert seat_on(node_of(full), gpus="0.5") == Refusal("gpu01", "gpu01 GPU 0: 48 programs use it")
    both = node_of(full, replace(other, closed="it hangs"))
    assert seat_on(both, gpus="0.5") == Refusal("gpu01", "gpu01 GPU 0: 48 programs use it; gpu01 GPU 1: it hangs")


def test_a_gpu_without_room_says_so_before_it_says_that_it_is_closed():
    refused = seat_on(node_of(replace(REAL, closed="it hangs"), replace(REAL, index=1, uuid="GPU-other")), [a_session(gpus="0.75")], gpus="0.5")
    assert refused == Refusal("gpu01", "gpu01 GPU 0: it hangs")
    taken = Room.empty(node_of(replace(REAL, closed="it hangs")))
    taken.gpus[0].unheld_parts = PARTS // 4
    assert fit(a_session(gpus="0.5").request, taken) == Refusal("gpu01", "gpu01 has at most 0.25 of one GPU free, 0.5 asked")


def test_a_gpu_whose_mps_is_closed_to_newcomers_and_can_be_given_up_is_given_out_whole_or_in_turns():
    full = replace(REAL, closed="48 programs use it")
    assert isinstance(seat_on(node_of(full), gpus="1"), Seat)
    assert isinstance(seat_on(node_of(full), gpus="1fgpu"), Seat)
    assert isinstance(seat_on(node_of(replace(full, sharing=Sharing.TIME)), gpus="0.5"), Seat)


def test_a_gpu_whose_mps_stays_is_given_out_by_mps_alone():
    kept = replace(REAL, mps_stays="MPS is in use")
    assert isinstance(seat_on(node_of(kept), gpus="0.5"), Seat)
    refused = Refusal("gpu01", "gpu01 GPU 0: MPS is in use")
    assert [seat_on(node_of(kept), gpus=gpus) for gpus in ("1", "1fgpu")] == [refused, refused]
    assert seat_on(node_of(replace(kept, sharing=Sharing.TIME)), gpus="0.5") == refused
    assert seat_on(node_of(kept, replace(REAL, index=1, uuid="GPU-other")), gpus="1").gpus[0].uuid == "GPU-other"
    assert seat_on(node_of(kept, replace(REAL, index=1, uuid="GPU-other")), gpus="2") == refused


def test_what_a_gpu_is_closed_for_today_is_never_refused_for_good():
    check_ever_fits(a_session(gpus="0.5").request, [node_of(replace(REAL, closed="it hangs", mps_stays="it hangs"))])
    check_ever_fits(a_session(gpus="1").request, [node_of(replace(REAL, closed="it hangs", mps_stays="it hangs"))])
    with pytest.raises(NeverFits) as never:
        check_ever_fits(a_session(gpus="2").request, [node_of(replace(REAL, closed="it hangs", mps_stays="it hangs"))])
    assert never.value.next_step.startswith("The largest that would fit: --gpus 1 ")


@pytest.mark.parametrize(("gpus", "percent"), [("0.5", 50), ("0.001", 1), ("0.25", 25), ("0.333333", 33)])
def test_percents_are_whole_and_never_none(gpus, percent):
    assert sm_percent(seat_on(node_of(REAL), gpus=gpus).gpus[0]) == percent


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 40)), max_size=20))
def test_neither_the_gpu_nor_its_memory_is_ever_given_out_twice(asked):
    room, given_out = Room.empty(node_of(REAL)), []
    for percent, gib in asked:
        apart = {"gpu_memory_bytes": gib * GIB} if percent < 100 else {}
        seat = fit(a_session(gpus=f"{percent / 100:.2f}", cpus_milli=1, memory_bytes=1, **apart).request, room)
        if isinstance(seat, Seat):
            room.take(seat)
            given_out.append(seat.gpus[0])
    assert sum(part.parts for part in given_out) <= PARTS
    assert sum(part.memory_bytes for part in given_out) <= REAL.memory_bytes
    for part in given_out:
        room.gpus[0].give_back(part)
    assert room.gpus[0].is_free
