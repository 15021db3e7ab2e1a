"""Fit, at its edges: what is taken where little is left, what is preferred, and the words of refusals."""

from dataclasses import replace

import pytest

from gpufairy.core.booking import node_key
from gpufairy.core.fit import Preference, Refusal, fit, needs, seats_together, what_is_left
from gpufairy.core.node import Node, NodeState, Sharing
from gpufairy.core.room import Room
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from scenes import GIB, a_gpu, a_node, a_session


def a_room(*gpus, cpus=16, memory_gib=128, **fields):
    return Room.empty(replace(Node("gpu01", cpus * 1000, memory_gib * GIB, gpus), **fields))


def taken(room, index, parts, memory_gib=None, **fields):
    gpu = room.gpus[index].gpu
    memory = gpu.memory_bytes * parts // PARTS if memory_gib is None else memory_gib * GIB
    room.take(
        Seat(
            "gpu01",
            0,
            0,
            (GpuSeat(index, gpu.uuid, parts, memory, gpu.kind, **{"sharing": gpu.sharing, **fields}),),
        )
    )
    return room


def asked(gpus="1", **fields):
    return a_session(gpus=gpus, **fields).request


def places(answer):
    assert isinstance(answer, Seat), answer
    return [(gpu.index, gpu.parts) for gpu in answer.gpus]


def why(answer):
    assert isinstance(answer, Refusal), answer
    return answer.why


def two_gpus(**fields):
    return a_room(a_gpu(0, **fields), a_gpu(1, **fields))


def test_as_many_cpus_and_as_much_memory_as_are_free_can_be_had():
    room = a_room()
    assert isinstance(fit(asked("0", cpus_milli=16_000, memory_bytes=128 * GIB), room), Seat)
    assert why(fit(asked("0", cpus_milli=16_001), room)) == "gpu01 has 16 CPUs free, 16.001 asked"


def test_what_is_less_than_nothing_is_told_as_nothing():
    room = a_room()
    room.cpus_milli, room.memory_bytes = -5000, -5 * GIB
    assert why(fit(asked("0", cpus_milli=1000), room)).startswith("gpu01 has 0 CPUs free")
    room.cpus_milli = 16_000
    assert why(fit(asked("0", cpus_milli=1000), room)).startswith("gpu01 has 0 B of memory free")


@pytest.mark.parametrize(
    ("fields", "cpus_milli", "memory_gib"),
    [
        ({"gpus": "1", "cpus_milli": 3000, "memory_bytes": 5 * GIB}, 3000, 5),
        ({"gpus": "1", "cpus_milli": 3000, "memory_bytes": None}, 3000, 56),
        ({"gpus": "1", "cpus_milli": None, "memory_bytes": 5 * GIB}, 7000, 5),
        ({"gpus": "0", "cpus_milli": None, "memory_bytes": None}, 1000, 7),
        ({"gpus": "0", "cpus_milli": 8000, "memory_bytes": None}, 8000, 56),
        ({"gpus": "0", "cpus_milli": 99_000, "memory_bytes": None}, 99_000, 112),
    ],
)
def test_who_does_not_say_gets_its_portion(fields, cpus_milli, memory_gib):
    request = a_session(**fields).request
    parts = PARTS if fields["gpus"] == "1" else 0
    assert needs(request, a_node(gpus=2), parts) == (cpus_milli, memory_gib * GIB)


def test_a_small_node_gives_one_without_gpu_what_it_has_and_a_crumb_of_a_gpu_a_crumb_of_a_cpu():
    tiny = replace(a_node(), cpus_milli=500)
    assert needs(asked("0", cpus_milli=None, memory_bytes=GIB), tiny, 0)[0] == 500
    assert needs(asked("0.000001", cpus_milli=None, memory_bytes=GIB), tiny, 1)[0] == 1


@pytest.mark.parametrize(
    ("usual", "free", "left"), [(800, 900, 800), (800, 300, 300), (800, 50, 100), (801, 0, 101), (8, 1, 1)]
)
def test_a_guest_takes_what_is_left_down_to_an_eighth(usual, free, left):
    assert what_is_left(usual, free) == left


def test_a_guest_that_says_what_it_wants_gets_that_or_nothing():
    room = a_room(a_gpu(), cpus=2, memory_gib=8)
    guest = asked(preemptible=True, cpus_milli=4000, memory_bytes=GIB)
    assert why(fit(guest, room)) == "gpu01 has 2 CPUs free, 4 asked"
    assert why(fit(asked(preemptible=True, cpus_milli=1000, memory_bytes=16 * GIB), room)).startswith(
        "gpu01 has 8 GiB"
    )


@pytest.mark.parametrize(
    ("share", "pool", "wakes"),
    [("1", None, True), ("0", None, False), ("0", "cloud", True), ("1", "cloud", True)],
)
def test_a_node_that_sleeps_is_woken_for_gpus_or_by_its_pools_name(share, pool, wakes):
    room = a_room(a_gpu(), pool="cloud", coming_s=60.0)
    answer = fit(asked(share, pool=pool), room)
    assert isinstance(answer, Seat) is wakes
    assert wakes or why(answer) == "gpu01 sleeps, and is woken for GPUs alone, or for who names pool cloud"


def test_a_host_that_is_closed_is_closed_also_to_those_without_gpu():
    room = a_room(a_gpu())
    shut = {node_key("gpu01"): "maintenance until 18:00 UTC"}
    assert why(fit(asked("0"), room, shut)) == "gpu01: maintenance until 18:00 UTC"
    assert isinstance(fit(asked("0"), room, {node_key("gpu02"): "maintenance"}), Seat)


def test_a_node_that_is_not_ready_says_why_if_it_knows():
    assert why(fit(asked(), a_room(a_gpu(), state=NodeState.DRAINED))) == "gpu01 is drained"


def test_a_gpu_that_was_named_is_the_one_that_is_taken():
    room = two_gpus()
    assert places(fit(asked(on_gpu="GPU-gpu01-1"), room)) == [(1, PARTS)]
    assert why(fit(asked(on_gpu="GPU-9"), room)) == "gpu01 has no GPU GPU-9"


def test_closed_gpus_are_passed_over_and_named_where_none_is_left():
    room = two_gpus()
    assert places(fit(asked(), room, {"GPU-gpu01-0": "booked"})) == [(1, PARTS)]
    both = {"GPU-gpu01-0": "booked", "GPU-gpu01-1": "out of use"}
    assert why(fit(asked(), room, both)) == "gpu01 GPU 0: booked; gpu01 GPU 1: out of use"


@pytest.mark.parametrize(("gpus", "more"), [(3, ""), (4, "; and 1 more GPUs"), (6, "; and 3 more GPUs")])
def test_three_gpus_are_named_and_the_others_counted(gpus, more):
    room = a_room(*(a_gpu(index) for index in range(gpus)))
    told = why(fit(asked(), room, {gpu.gpu.uuid: "booked" for gpu in room.gpus}))
    assert told == "; ".join(f"gpu01 GPU {index}: booked" for index in range(3)) + more


def test_beside_what_is_full_that_is_told_which_is_closed_and_of_the_kind_asked_for():
    room = taken(a_room(a_gpu(0), a_gpu(1), a_gpu(2, kind="V100")), 0, PARTS)
    shut = {"GPU-gpu01-1": "booked", "GPU-gpu01-2": "too old"}
    full = "gpu01 has 0 of 1 GPUs wholly free, 1 asked"
    assert why(fit(asked(gpu_kind="A100"), room, shut)) == f"{full}; gpu01 GPU 1: booked"
    other_kind = why(fit(asked("2", gpu_kind="A100"), room, {"GPU-gpu01-2": "too old"}))
    assert other_kind == "gpu01 has 1 of 2 GPUs wholly free, 2 asked"


def test_a_guest_takes_a_gpu_that_is_free_before_one_that_is_lent():
    room = taken(two_gpus(), 0, PARTS)
    room.gpus[0].lend(PARTS, 40 * GIB)
    guest = asked(preemptible=True)
    assert places(fit(guest, room)) == [(1, PARTS)]
    assert places(fit(asked("2", preemptible=True), room)) == [(1, PARTS), (0, PARTS)]
    assert why(fit(asked("2"), room)) == "gpu01 has 1 of 2 GPUs wholly free, 2 asked"


def test_a_guest_is_told_that_it_borrows():
    room = taken(a_room(a_gpu()), 0, PARTS)
    room.gpus[0].lend(PARTS, 40 * GIB)
    assert [gpu.borrowed for gpu in fit(asked("0.5", preemptible=True), room).gpus] == [True]
    assert [gpu.borrowed for gpu in fit(asked("0.5"), a_room(a_gpu())).gpus] == [False]


def test_memory_asked_for_apart_is_borrowed_too_where_only_it_is_not_free():
    room = taken(a_room(a_gpu()), 0, 0, memory_gib=35)
    room.gpus[0].lend(0, 35 * GIB)
    (gpu,) = fit(asked("0.5", preemptible=True, gpu_memory_bytes=10 * GIB), room).gpus
    assert (gpu.borrowed, gpu.memory_bytes, gpu.memory_parts) == (True, 10 * GIB, PARTS // 4)


def test_the_preferred_gpu_is_taken_where_it_fits_and_another_where_it_does_not():
    room = taken(two_gpus(), 0, PARTS // 2)
    prefers = Preference("GPU-gpu01-1")
    assert places(fit(asked("0.5"), room, prefer=prefers)) == [(1, PARTS // 2)]
    assert places(fit(asked("0.5"), taken(room, 1, PARTS * 3 // 4), prefer=prefers)) == [(0, PARTS // 2)]
    assert places(fit(asked("0.5"), room, prefer=Preference("GPU-elsewhere"))) == [(0, PARTS // 2)]


def test_fgpu_that_come_to_several_cards_take_as_few_as_any_sort_needs():
    room = a_room(a_gpu(0, fgpu_parts=PARTS), a_gpu(1, fgpu_parts=2 * PARTS), a_gpu(2, fgpu_parts=2 * PARTS))
    assert len(fit(asked("4fgpu"), room).gpus) == 2


def test_memory_of_one_gpu_that_is_too_little_is_told_with_the_most_there_is():
    room = taken(taken(two_gpus(), 0, 0, memory_gib=30), 1, 0, memory_gib=39)
    answer = fit(asked("0.5"), room)
    assert why(answer) == "gpu01 has at most 10 GiB of one GPU's memory free, 20 GiB asked"
    assert places(fit(asked("0.5", gpu_memory_bytes=10 * GIB), room)) == [(0, PARTS // 2)]


def test_a_gpu_that_takes_no_newcomers_by_mps_is_open_where_nobody_says_why_not():
    assert places(fit(asked("0.5"), a_room(a_gpu()))) == [(0, PARTS // 2)]
    told = why(fit(asked("0.5"), a_room(a_gpu(closed="MPS does not answer", sharing=Sharing.MPS))))
    assert told == "gpu01 GPU 0: MPS does not answer"


def test_whole_gpus_go_where_mps_can_be_ended():
    room = a_room(a_gpu(0, mps_stays="MPS cannot be ended"), a_gpu(1))
    assert places(fit(asked(), room)) == [(1, PARTS)]
    assert why(fit(asked("2"), room)) == "gpu01 GPU 0: MPS cannot be ended"


def test_those_who_start_together_sit_on_the_first_node_that_has_room_and_take_it():
    there = {"a": Room.empty(a_node("a")), "b": Room.empty(a_node("b"))}
    seats = seats_together([asked(), asked()], there)
    assert [seat.node for seat in seats] == ["a", "b"]
    assert seats_together([asked()], there) is None
    assert seats_together([], there) == []


def test_fgpu_that_come_to_one_whole_card_take_that_and_not_several_smaller_ones():
    room = a_room(a_gpu(0, fgpu_parts=PARTS), a_gpu(1, fgpu_parts=2 * PARTS), a_gpu(2, fgpu_parts=PARTS))
    assert places(fit(asked("2fgpu"), room)) == [(1, PARTS)]
