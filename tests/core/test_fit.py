"""Fit: a seat, or a refusal in words."""
from dataclasses import replace

import pytest

from gpufairy.core.admit import check_ever_fits
from gpufairy.core.errors import NeverFits
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Node, NodeState
from gpufairy.core.room import Room
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from scenes import A100_CUTS, GIB, a_gpu, a_node, a_session


def node_with(*cards):
    return Node("gpu01", 16000, 128 * GIB, cards)


def seat(session, node, taken=()):
    room = Room.empty(node)
    for other in taken:
        room.take(fit(other.request, room))
    return fit(session.request, room)


@pytest.mark.parametrize(
    ("session", "node", "why"),
    [
        (a_session(gpus="3"), a_node(gpus=2), "gpu01 has 2 of 2 GPUs wholly free, 3 asked"),
        (a_session(gpus="1"), a_node(gpus=0), "gpu01 has no GPU"),
        (a_session(gpu_kind="H100"), a_node(), "gpu01 has A100-40GB, not H100"),
        (a_session(gpus="0", cpus_milli=17000), a_node(), "gpu01 has 16 CPUs free, 17 asked"),
        (a_session(gpus="0", memory_bytes=200 * GIB), a_node(), "gpu01 has 128 GiB of memory free, 200 GiB asked"),
        (a_session(gpus="mig:1g.5gb"), a_node(), "no GPU of gpu01 is in MIG mode, 1g.5gb asked"),
        (a_session(gpus="0.5"), a_node(mig=True), "every GPU of gpu01 is cut by MIG; 0.5 asked"),
        (a_session(pool="big"), a_node(), "gpu01 is not in pool big"),
        (a_session(), a_node(state=NodeState.DRAINED, state_why="new fan"), "gpu01 is drained: new fan"),
    ],
)
def test_every_refusal_says_what_was_found_and_what_was_asked(session, node, why):
    assert seat(session, node) == Refusal("gpu01", why)


def test_a_full_gpu_says_how_much_of_it_is_free():
    answer = seat(a_session(gpus="0.5"), a_node(), taken=[a_session(gpus="0.75")])
    assert answer == Refusal("gpu01", "gpu01 has at most 0.25 of one GPU free, 0.5 asked")


def room_with(node, **taken):
    """The node's room with seats given by hand: parts of each GPU that are gone, as gpu0=PARTS // 4."""
    room = Room.empty(node)
    for index, parts in ((int(name.removeprefix("gpu")), parts) for name, parts in taken.items()):
        gpu = node.gpus[index]
        part = GpuSeat(index, gpu.uuid, parts, gpu.memory_bytes * parts // PARTS, gpu.kind, sharing=gpu.sharing)
        room.take(Seat(node.name, 0, 0, (part,)))
    return room


@pytest.mark.parametrize(
    ("taken", "goes_to"),
    [
        ({"gpu0": PARTS // 4}, 0),
        ({"gpu1": PARTS // 4}, 1),
        ({"gpu0": PARTS // 4, "gpu1": PARTS // 2}, 1),
        ({"gpu0": PARTS // 2, "gpu2": PARTS // 4}, 0),
        ({"gpu0": PARTS * 3 // 4, "gpu2": PARTS // 4}, 2),  # the fullest has too little left
        ({}, 0),
    ],
)
def test_a_fraction_goes_where_least_is_left_over(taken, goes_to):
    answer = fit(a_session(gpus="0.5").request, room_with(a_node(gpus=3), **taken))
    assert isinstance(answer, Seat)
    assert [(part.index, part.parts, part.memory_bytes) for part in answer.gpus] == [(goes_to, PARTS // 2, 20 * GIB)]


def test_of_gpus_with_as_much_left_the_one_with_less_memory_takes_the_fraction():
    room = Room.empty(a_node(gpus=2))
    full = room.node.gpus[1]
    room.take(Seat("gpu01", 0, 0, (GpuSeat(1, full.uuid, 0, 10 * GIB, full.kind, sharing=full.sharing),)))
    answer = fit(a_session(gpus="0.5", gpu_memory_bytes=GIB).request, room)
    assert [part.index for part in answer.gpus] == [1]


def test_a_share_in_fgpu_is_that_part_of_the_card():
    answer = seat(a_session(gpus="0.5fgpu"), node_with(a_gpu(fgpu_parts=5 * PARTS)))
    assert isinstance(answer, Seat)
    assert answer.gpus[0].parts == PARTS // 10
    assert answer.gpus[0].memory_bytes == 4 * GIB


def test_five_fifths_fit_and_a_sixth_does_not():
    node = node_with(a_gpu(fgpu_parts=5 * PARTS))
    fifths = [a_session(gpus="1fgpu") for _ in range(5)]
    assert isinstance(seat(fifths[-1], node, taken=fifths[:-1]), Seat)
    assert isinstance(seat(a_session(gpus="1fgpu"), node, taken=fifths), Refusal)


def test_what_comes_to_several_of_the_small_cards_has_a_part_of_the_large_one_beside_them():
    node = node_with(a_gpu(0, fgpu_parts=PARTS), a_gpu(1, fgpu_parts=5 * PARTS))
    answer = seat(a_session(gpus="2fgpu"), node, taken=[a_session(gpus="0.5")])
    assert [(part.index, part.parts) for part in answer.gpus] == [(1, 400_000)]


def test_more_fgpu_than_a_card_has_come_to_whole_cards():
    node = node_with(a_gpu(0, fgpu_parts=2 * PARTS), a_gpu(1, fgpu_parts=2 * PARTS))
    answer = seat(a_session(gpus="4fgpu"), node)
    assert [gpu.parts for gpu in answer.gpus] == [PARTS, PARTS]


def test_mig_instances_are_cut_by_the_placement_rules_until_none_fits():
    node = a_node(mig=True)
    small = [a_session(gpus="mig:2g.10gb") for _ in range(3)]
    assert isinstance(seat(small[2], node, taken=small[:2]), Seat)
    assert seat(a_session(gpus="mig:2g.10gb"), node, taken=small) == Refusal("gpu01", "gpu01 has no room for a 2g.10gb on its MIG GPUs")


def test_only_one_instance_of_a_gpu_has_the_media_engines():
    node = a_node(mig=True)
    assert isinstance(seat(a_session(gpus="mig:1g.5gb"), node, taken=[a_session(gpus="mig:1g.5gb+me")]), Seat)
    assert isinstance(seat(a_session(gpus="mig:1g.5gb+me"), node, taken=[a_session(gpus="mig:1g.5gb+me")]), Refusal)


def test_a_small_cut_keeps_the_largest_region_whole():
    answer = seat(a_session(gpus="mig:1g.5gb"), a_node(mig=True))
    assert answer.gpus[0].start == 6  # beside the end, where no 3g.20gb of [0, 4) is disturbed
    assert isinstance(seat(a_session(gpus="mig:3g.20gb"), a_node(mig=True), taken=[a_session(gpus="mig:1g.5gb")]), Seat)


def test_a_fixed_cut_gives_only_what_is_cut():
    instance = MigInstance("3g.20gb", 0, 4, "MIG-1")
    node = node_with(a_gpu(mig=A100_CUTS, instances=(instance,)))
    answer = seat(a_session(gpus="mig:3g.20gb"), node)
    assert (answer.gpus[0].device, answer.gpus[0].parts) == ("MIG-1", 3 * PARTS // 7)
    assert isinstance(seat(a_session(gpus="mig:1g.5gb"), node), Refusal)
    assert isinstance(seat(a_session(gpus="mig:3g.20gb"), node, taken=[a_session(gpus="mig:3g.20gb")]), Refusal)


def test_who_does_not_say_gets_cpus_and_memory_in_proportion_to_the_gpus():
    answer = seat(a_session(gpus="0.5", cpus_milli=None, memory_bytes=None), a_node(gpus=2, cpus=16, memory_gib=128))
    assert (answer.cpus_milli, answer.memory_bytes) == (3500, 28 * GIB)  # 7/8 of a quarter of the node


def test_what_never_fits_is_refused_with_the_largest_that_would():
    with pytest.raises(NeverFits) as refused:
        check_ever_fits(a_session(gpus="8", cpus_milli=64000).request, [a_node(gpus=2), a_node("gpu02", gpus=4, cpus=32)])
    assert "gpu02 has 4 of 4 GPUs wholly free, 8 asked" in refused.value.detail
    assert refused.value.next_step == "The largest that would fit: --gpus 4 --cpus 32 --memory 1GiB on gpu02."


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        (a_session(gpus="0.5", cpus_milli=99000), "--gpus 0.5 --cpus 16 --memory 1GiB on gpu01"),
        (a_session(gpus="mig:1g.5gb"), "--gpus 1 --cpus 1 --memory 1GiB on gpu01"),
        (a_session(gpus="2", gpu_kind="H100"), "--gpus 2 --cpus 1 --memory 1GiB, without --gpu-kind, on gpu01"),
        (a_session(gpus="1", pool="big"), "--gpus 1 --cpus 1 --memory 1GiB, without --pool, on gpu01"),
        (a_session(gpus="5", memory_bytes=500 * GIB), "--gpus 2 --cpus 1 --memory 128GiB on gpu01"),
    ],
)
def test_what_is_offered_instead_would_really_fit(asked, offered):
    with pytest.raises(NeverFits) as refused:
        check_ever_fits(asked.request, [a_node(gpus=2)])
    assert refused.value.next_step == f"The largest that would fit: {offered}."


def test_what_fits_later_is_not_refused():
    check_ever_fits(a_session(gpus="2").request, [a_node(gpus=2, state=NodeState.DRAINED)])


def test_a_guest_that_does_not_say_takes_the_cpus_and_memory_that_are_left():
    room = Room.empty(a_node(gpus=1, cpus=16, memory_gib=64))
    room.cpus_milli, room.memory_bytes = 2000, 8 * GIB
    asked = a_session(gpus="1", cpus_milli=None, memory_bytes=None).request
    assert isinstance(fit(asked, room), Refusal)
    seat = fit(replace(asked, preemptible=True), room)
    assert (seat.cpus_milli, seat.memory_bytes) == (2000, 8 * GIB)
    room.cpus_milli = 1700  # less than an eighth of what it would usually have
    assert isinstance(fit(replace(asked, preemptible=True), room), Refusal)
