"""Room: what is free on a node, as seats are taken, given back, lent and borrowed."""

from dataclasses import replace

import pytest

from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Sharing
from gpufairy.core.room import GpuRoom, Room, rooms
from gpufairy.core.session import GpuSeat, IdleStep, Seat
from gpufairy.core.share import PARTS
from scenes import A100_CUTS, GIB, a_gpu, a_node, a_session

HALF = PARTS // 2


def a_gpu_seat(index=0, parts=HALF, memory_gib=20, **fields):
    gpu = a_gpu(index)
    return GpuSeat(index, gpu.uuid, parts, memory_gib * GIB, gpu.kind, **{"sharing": gpu.sharing, **fields})


def a_seat(*gpus, node="gpu01", cpus=2000, memory_gib=8):
    return Seat(node, cpus, memory_gib * GIB, gpus)


def figures(gpu):
    return gpu.unheld_parts, gpu.unheld_memory_bytes // GIB, gpu.lent_parts, gpu.lent_memory_bytes // GIB


def test_a_seat_takes_cpus_memory_and_its_parts_of_gpus_and_gives_all_of_it_back():
    room = Room.empty(a_node(gpus=2))
    room.take(a_seat(a_gpu_seat(1)))
    assert (room.cpus_milli, room.memory_bytes) == (14_000, 120 * GIB)
    assert [figures(gpu) for gpu in room.gpus] == [(PARTS, 40, 0, 0), (HALF, 20, 0, 0)]
    room.give_back(a_seat(a_gpu_seat(1)))
    assert room == Room.empty(a_node(gpus=2))


def test_a_copy_is_a_room_of_its_own():
    room = Room.empty(a_node())
    copy = room.copy()
    copy.take(a_seat(a_gpu_seat()))
    assert room == Room.empty(a_node())


def test_what_is_lent_is_open_to_guests_and_not_free():
    gpu = GpuRoom(a_gpu(), PARTS, 40 * GIB)
    gpu.take(a_gpu_seat(parts=PARTS, memory_gib=40))
    gpu.lend(PARTS, 40 * GIB)
    assert (gpu.free_parts, gpu.free_memory_bytes) == (0, 0)
    assert (gpu.open_parts(True), gpu.open_parts(False)) == (PARTS, 0)
    assert (gpu.open_memory_bytes(True), gpu.open_memory_bytes(False)) == (40 * GIB, 0)
    assert (gpu.is_open(True), gpu.is_open(False), gpu.is_free) == (True, False, False)


def test_a_guest_sits_in_what_is_lent_and_when_that_is_over_in_what_is_free():
    gpu = GpuRoom(a_gpu(), PARTS, 40 * GIB)
    gpu.lend(HALF, 20 * GIB)
    gpu.take(a_gpu_seat(borrowed=True))
    assert (figures(gpu), gpu.free_parts) == ((PARTS, 40, 0, 0), PARTS)
    gpu.lend(-HALF, -20 * GIB)
    assert (gpu.free_parts, gpu.free_memory_bytes) == (HALF, 20 * GIB)
    gpu.give_back(a_gpu_seat(borrowed=True))
    assert (gpu.free_parts, gpu.free_memory_bytes) == (PARTS, 40 * GIB)


@pytest.mark.parametrize(("parts", "memory_gib", "free"), [(0, 0, True), (1, 0, False), (0, 1, False)])
def test_a_gpu_is_free_when_nobody_has_a_part_of_it_or_of_its_memory(parts, memory_gib, free):
    gpu = GpuRoom(a_gpu(), PARTS, 40 * GIB)
    gpu.take(a_gpu_seat(parts=parts, memory_gib=memory_gib))
    assert gpu.is_free is free


def test_of_a_gpu_in_mig_mode_the_memory_says_nothing():
    gpu = GpuRoom(a_gpu(mig=A100_CUTS), PARTS, 0)
    assert gpu.is_free


def test_instances_are_remembered_in_order_and_forgotten_once():
    gpu = GpuRoom(a_gpu(mig=A100_CUTS), PARTS, 40 * GIB)
    big, media = (
        a_gpu_seat(profile="3g.20gb", start=4, size=4),
        a_gpu_seat(profile="1g.5gb+me", start=0, size=1),
    )
    gpu.take(big)
    gpu.take(media)
    gpu.take(media)
    assert (gpu.cut, gpu.media) == (((0, 1), (0, 1), (4, 4)), 2)
    gpu.give_back(media)
    assert (gpu.cut, gpu.media) == (((0, 1), (4, 4)), 1)


@pytest.mark.parametrize(
    ("gpu", "seat", "counts"),
    [({}, {}, 0), ({}, {"sharing": Sharing.TIME}, 1), ({"simulated": True}, {"sharing": Sharing.TIME}, 0), ({"mig": A100_CUTS}, {"sharing": Sharing.TIME}, 0)],
)  # fmt: skip
def test_those_who_share_in_another_way_than_the_gpu_does_now_are_counted(gpu, seat, counts):
    room = GpuRoom(a_gpu(**gpu), PARTS, 40 * GIB)
    room.take(a_gpu_seat(**seat))
    assert room.other_way == counts
    room.give_back(a_gpu_seat(**seat))
    assert room.other_way == 0


def test_a_seat_on_a_gpu_that_is_no_longer_there_takes_no_gpu():
    room = Room.empty(a_node(gpus=1))
    lost = replace(a_gpu_seat(), uuid="GPU-pulled")
    room.take(a_seat(lost))
    assert (room.place_of(lost), figures(room.gpus[0]), room.cpus_milli) == (None, (PARTS, 40, 0, 0), 14_000)
    room.give_back(a_seat(lost))
    assert room == Room.empty(a_node(gpus=1))


def test_a_gpu_is_found_by_its_uuid_wherever_it_is_listed():
    node = a_node(gpus=3)
    turned = replace(node, gpus=node.gpus[::-1])
    assert [Room.empty(turned).place_of(a_gpu_seat(index)) for index in range(3)] == [2, 1, 0]
    assert [Room.empty(node).place_of(a_gpu_seat(index)) for index in range(3)] == [0, 1, 2]
    assert Room.empty(a_node(gpus=1)).place_of(a_gpu_seat(1)) is None


def lender(lent=True, **seat):
    step = IdleStep.LENT if lent else IdleStep.NONE
    return a_session(seat=a_seat(a_gpu_seat(**{"parts": PARTS, "memory_gib": 40, **seat})), idle_step=step)


def test_one_who_lends_leaves_with_what_it_lends():
    room = Room.empty(a_node())
    room.sit(lender())
    assert figures(room.gpus[0]) == (0, 0, PARTS, 40)
    room.sit(lender(), -1)
    assert room == Room.empty(a_node())


def test_one_who_does_not_lend_or_has_an_instance_lends_nothing():
    room = Room.empty(a_node())
    room.sit(lender(lent=False))
    assert figures(room.gpus[0]) == (0, 0, 0, 0)
    cut = Room.empty(a_node(mig=True))
    cut.sit(lender(profile="3g.20gb", start=0, size=4))
    assert cut.gpus[0].lent_parts == 0


def test_one_without_a_seat_takes_nothing():
    room = Room.empty(a_node())
    room.sit(a_session())
    assert room == Room.empty(a_node())


def test_what_is_free_in_both_is_the_less_of_each():
    mine, theirs = Room.empty(a_node(gpus=2)), Room.empty(a_node(gpus=2))
    mine.take(a_seat(a_gpu_seat(0), cpus=4000, memory_gib=1))
    theirs.take(a_seat(a_gpu_seat(1, memory_gib=30), cpus=1000, memory_gib=9))
    theirs.gpus[0].lend(5, 5 * GIB)
    for both in (mine.shared_with(theirs), theirs.shared_with(mine)):
        assert (both.cpus_milli, both.memory_bytes) == (12_000, 119 * GIB)
        assert [figures(gpu) for gpu in both.gpus] == [(HALF, 20, 0, 0), (HALF, 10, 0, 0)]


def test_of_two_pictures_of_a_gpu_all_cuts_count_and_the_more_of_what_keeps_others_out():
    mine, theirs = (GpuRoom(a_gpu(mig=A100_CUTS), PARTS, 40 * GIB) for _ in range(2))
    mine.cut, mine.media, theirs.cut, theirs.other_way = ((0, 1),), 1, ((4, 4),), 2
    both = mine.shared_with(theirs)
    assert (both.cut, both.media, both.other_way) == (((0, 1), (4, 4)), 1, 2)


def test_a_room_shrinks_to_another_where_a_seat_is_and_nowhere_else():
    room, other = Room.empty(a_node(gpus=2)), Room.empty(a_node(gpus=2))
    other.take(a_seat(a_gpu_seat(0), a_gpu_seat(1)))
    room.shrink_to(other, a_seat(a_gpu_seat(1), replace(a_gpu_seat(0), uuid="GPU-pulled")))
    assert (room.cpus_milli, room.memory_bytes) == (14_000, 120 * GIB)
    assert [gpu.unheld_parts for gpu in room.gpus] == [PARTS, HALF]


def test_rooms_are_less_those_who_sit_there_and_nobody_else():
    here, elsewhere = a_session(seat=a_seat(a_gpu_seat())), a_session(seat=a_seat(node="gone"))
    free = rooms([a_node(), a_node("gpu02")], [here, elsewhere, a_session()])
    assert list(free) == ["gpu01", "gpu02"]
    assert (free["gpu01"].cpus_milli, free["gpu02"].cpus_milli) == (14_000, 16_000)
    assert free["gpu01"].gpus[0].unheld_parts == HALF


def test_a_fixed_cut_is_as_empty_as_an_uncut_gpu_until_somebody_sits():
    cut = (MigInstance("3g.20gb", 0, 4, "MIG-1"),)
    assert Room.empty(replace(a_node(), gpus=(a_gpu(mig=A100_CUTS, instances=cut),))).gpus[0].cut == ()
