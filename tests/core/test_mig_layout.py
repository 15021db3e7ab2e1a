"""MIG in small: tables, whole cuts at once, wishes as people write them, and where the next instance goes."""

from dataclasses import replace

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.core.holders import Holder
from gpufairy.core.mig import MigInstance, best_start, has_media, open_starts, room_left, slices_in, table_of
from gpufairy.core.mig_cut import Cut, as_it_may_be_cut, cut_now, with_cuts
from gpufairy.core.mig_demand import can_sit, cut_for_waiting
from gpufairy.core.mig_layout import lay_out
from gpufairy.core.mig_plain import plan_to_plain
from gpufairy.core.mig_plan import (
    CutNow,
    CutPlan,
    cut_words,
    largest_gap,
    parse_wanted,
    plan_cut,
    whole_profile,
)
from gpufairy.core.mig_recent import RecentProfiles
from gpufairy.core.mig_seat import best_cut, cuts_on, instance_on
from gpufairy.core.mig_worth import best_cut_for_mix, best_start_for_mix, cut_costs, mask_of, unusable_slices
from gpufairy.core.node import NodeState
from gpufairy.core.room import GpuRoom, Room, rooms
from gpufairy.core.session import GpuSeat
from gpufairy.core.share import PARTS
from scenes import A100_CUTS, GIB, a_gpu, a_node, a_session

SMALL, MEDIUM, HALF, WHOLE = (A100_CUTS.profile(name) for name in ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"))


def starts(*wanted, taken=()):
    return [start for _, start in lay_out(A100_CUTS, "A100", wanted, taken)]


def cut(*parts):
    return tuple(
        MigInstance(name, start, A100_CUTS.profile(name).size, f"MIG-{start}") for name, start in parts
    )


def cut_as(*parts, used=()):
    return CutNow("A100", A100_CUTS, cut(*parts), frozenset(used))


def a_gpu_room(**fields):
    gpu = a_gpu(**{"mig": A100_CUTS, **fields})
    return GpuRoom(gpu, PARTS, gpu.memory_bytes)


def test_a_whole_cut_is_laid_out_in_the_order_asked():
    assert starts("1g.5gb", "3g.20gb", "2g.10gb") == [6, 0, 4]
    assert starts("3g.20gb", "3g.20gb") == [0, 4]
    assert starts() == []


def test_a_cut_goes_beside_what_is_taken():
    assert starts("3g.20gb", taken=[(0, 1)]) == [4]
    assert starts("2g.10gb", "1g.5gb", taken=[(0, 4)]) == [4, 6]


def test_a_cut_takes_all_the_slices_there_are():
    assert starts("3g.20gb", "2g.10gb", "1g.5gb", taken=[(7, 1)]) == [0, 4, 6]


@pytest.mark.parametrize(
    ("wanted", "taken", "why"),
    [
        (
            ["3g.20gb"] * 3,
            [],
            "3g.20gb + 3g.20gb + 3g.20gb do not fit on one A100: they take 12 memory slices, 8 of 8 are free",
        ),
        (["3g.20gb"], [(0, 5)], "3g.20gb do not fit on one A100: they take 4 memory slices, 3 of 8 are free"),
        (
            ["2g.10gb"] * 4,
            [],
            "a profile may begin only at certain slices, and no arrangement keeps them apart",
        ),
        (["4g.20gb"], [], "A100 has no MIG profile '4g.20gb'"),
        (
            ["1g.5gb+me"] * 2,
            [],
            "1g.5gb+me + 1g.5gb+me: one A100 has media engines for a single +me instance",
        ),
    ],
)
def test_a_cut_that_cannot_be_is_refused_with_why(wanted, taken, why):
    with pytest.raises(BadInput) as refused:
        lay_out(A100_CUTS, "A100", wanted, taken)
    assert why in refused.value.detail


def test_what_is_offered_instead_is_the_smallest_by_its_plain_name():
    with pytest.raises(BadInput) as refused:
        lay_out(A100_CUTS, "A100", ["7g.40gb"] * 2)
    assert refused.value.next_step == "Ask for fewer or smaller ones, such as 1g.5gb."


def test_one_instance_may_have_the_media_engines_beside_others_that_have_not():
    assert starts("1g.5gb+me", "1g.5gb") == [0, 1]


def test_a_profile_may_begin_where_its_table_says_and_nothing_is():
    assert open_starts(MEDIUM, []) == [0, 2, 4]
    assert open_starts(MEDIUM, [(1, 1), (5, 1)]) == [2]
    assert open_starts(HALF, [(3, 1)]) == [4]


def test_the_start_that_leaves_the_most_choice_wins_and_of_equals_the_last():
    assert best_start(A100_CUTS, SMALL, []) == 6
    assert best_start(A100_CUTS, SMALL, [(0, 4), (4, 4)]) is None
    assert room_left(A100_CUTS, []) == 7 + 7 + 3 * 4 + 2 * 16 + 64
    assert room_left(A100_CUTS, [(0, 4)]) == 3 + 3 + 4 + 16


def test_a_table_is_read_from_a_cut_of_which_nothing_else_is_known():
    table = table_of(
        (
            MigInstance("3g.20gb", 4, 4, "a"),
            MigInstance("1g.5gb", 1, 1, "b"),
            MigInstance("1g.5gb", 0, 1, "c"),
        )
    )
    assert (table.compute_slices, table.memory_slices) == (5, 8)
    assert [(one.name, one.compute_slices, one.size, one.starts) for one in table.profiles] == [
        ("1g.5gb", 1, 1, (0, 1)), ("3g.20gb", 3, 4, (4,)),
    ]  # fmt: skip
    assert (table_of(()).compute_slices, table_of(()).memory_slices) == (1, 1)


@pytest.mark.parametrize(("name", "slices"), [("3g.20gb", 3), ("1c.3g.20gb", 1), ("12g.5gb", 12), ("odd", 1)])
def test_a_profile_says_how_many_compute_slices_it_has(name, slices):
    assert slices_in(name) == slices


def test_media_engines_are_in_the_name():
    assert (has_media("1g.5gb+me"), has_media("1g.5gb")) == (True, False)
    assert (whole_profile("1c.3g.20gb"), whole_profile("3g.20gb")) == ("3g.20gb", "3g.20gb")


def test_wishes_are_counted_and_at_most_sixty_four():
    assert parse_wanted("3g.20gb") == ("3g.20gb",)
    assert parse_wanted("2x1g.5gb,3g.20gb") == ("1g.5gb", "1g.5gb", "3g.20gb")
    assert len(parse_wanted("64x1g.5gb")) == 64
    with pytest.raises(BadInput, match="65 instances on one GPU"):
        parse_wanted("65x1g.5gb")
    with pytest.raises(BadInput, match="'half' is no MIG profile"):
        parse_wanted("half")


def test_what_is_wanted_is_placed_in_the_order_asked():
    found = plan_cut(cut_as(), ["1g.5gb", "3g.20gb", "1g.5gb"])
    assert [one.profile for one in found.placements] == ["1g.5gb", "3g.20gb", "1g.5gb"]
    assert len({one.start for one in found.placements}) == 3


def test_no_two_equal_instances_are_cut_in_the_same_place():
    found = plan_cut(cut_as(), ["1g.5gb"] * 7)
    assert sorted(one.start for one in found.made) == [0, 1, 2, 3, 4, 5, 6]


def test_what_is_cut_already_is_no_change():
    found = plan_cut(cut_as(("3g.20gb", 0)), ["3g.20gb"])
    assert (found.fits, found.changes, found.made, found.touched) == (True, False, (), ())
    assert CutPlan(True, made=cut(("1g.5gb", 0))).changes
    assert CutPlan(True, touched=cut(("1g.5gb", 0))).changes


def test_idle_instances_go_and_used_ones_stay():
    found = plan_cut(cut_as(("1g.5gb", 0), ("1g.5gb", 4), used=(0,)), ["1g.5gb", "3g.20gb"])
    assert [one.start for one in found.touched] == [4]
    assert [(one.profile, one.start) for one in found.after] == [("1g.5gb", 0), ("3g.20gb", 4)]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (["1g.5gb+me"] * 2, "1g.5gb+me + 1g.5gb+me: one A100 has media engines for a single +me instance"),
        (["7g.40gb", "1g.5gb"], "7g.40gb + 1g.5gb take 9 memory slices, and one A100 has 8"),
        (["3g.20gb", "3g.20gb", "1g.5gb"], "take 9 memory slices"),
    ],
)
def test_what_no_empty_gpu_could_hold_is_said(wanted, why):
    found = plan_cut(cut_as(), wanted)
    assert (found.fits, why in found.why) == (False, True), found.why


def test_what_has_slices_enough_and_no_arrangement_is_said():
    table = replace(A100_CUTS, compute_slices=8)
    found = plan_cut(CutNow("A100", table, (), frozenset()), ["2g.10gb"] * 4)
    assert found.why.startswith(
        "4 x 2g.10gb do not fit on one A100: a profile may begin only at certain slices"
    )


def test_compute_slices_run_out_too():
    table = replace(A100_CUTS, compute_slices=3)
    found = plan_cut(CutNow("A100", table, (), frozenset()), ["2g.10gb", "2g.10gb"])
    assert found.why == "2 x 2g.10gb take 4 compute slices, and one A100 has 3"
    assert plan_cut(CutNow("A100", table, (), frozenset()), ["2g.10gb", "1g.5gb"]).fits


def test_an_instance_with_media_that_is_used_leaves_none_for_another():
    assert not plan_cut(cut_as(("1g.5gb+me", 0), used=(0,)), ["1g.5gb+me", "1g.5gb+me"]).fits
    assert plan_cut(cut_as(("1g.5gb+me", 0), used=(0,)), ["1g.5gb+me", "1g.5gb"]).fits


def test_of_equal_cuts_the_one_with_the_largest_piece_left_is_made():
    assert [one.start for one in plan_cut(cut_as(("1g.5gb", 6), used=(6,)), ["1g.5gb", "1g.5gb"]).made] == [5]
    assert (
        largest_gap(A100_CUTS, []),
        largest_gap(A100_CUTS, [(3, 1)]),
        largest_gap(A100_CUTS, [(0, 8)]),
    ) == (8, 4, 0)


def test_a_plan_says_in_plain_values_what_is_made_kept_and_given_up():
    made, kept, gone = MigInstance("1g.5gb", 4, 1, ""), *cut(("3g.20gb", 0)), *cut(("1g.5gb", 6))
    plain = plan_to_plain(CutPlan(True, (made,), (made,), (kept, made), (gone,)))
    assert plain["made"] == plain["placements"] == [{"profile": "1g.5gb", "start": 4, "size": 1}]
    assert [one["uuid"] for one in plain["kept"]] == ["MIG-0", None]
    assert (plain["touched"], plain["fits"], "why" in plain) == (["MIG-6"], True, False)
    assert plan_to_plain(CutPlan(False, why="no room"))["why"] == "no room"
    assert cut_words(["1g.5gb"]) == "1g.5gb"


def test_eight_requests_are_the_first_lesson_then_three_times_as_many_and_a_hundred_and_twenty_eight_at_most():
    recent, learnt = RecentProfiles(), []
    for place in range(1, 600):
        before = recent.mix
        news = recent.note(f"{place}g")
        assert news is (recent.mix is not before)
        if news:
            learnt.append(place)
    assert learnt == [8, 32, 128, 256, 384, 512]


def test_the_mix_is_of_the_last_five_hundred_and_twelve():
    recent = RecentProfiles()
    for place in range(1024):
        recent.note("old" if place < 512 else "new")
    assert recent.mix == {"new": 1.0}


def test_parts_of_a_mix_come_to_one():
    recent = RecentProfiles()
    for name in ["3g.20gb"] * 2 + ["1g.5gb"] * 6:
        recent.note(name)
    assert recent.mix == {"1g.5gb": 0.75, "3g.20gb": 0.25}


def auto_node(*parts, name="gpu01", gpu_kind="A100-40GB", **fields):
    gpu = a_gpu(node=name, mig=A100_CUTS, instances=cut(*parts), mig_auto=True, kind=gpu_kind)
    return replace(a_node(name), gpus=(gpu,), **fields)


def test_a_cut_is_wished_for_only_on_nodes_that_are_ready():
    waiting = [a_session(gpus="mig:3g.20gb")]
    node = auto_node(("1g.5gb", 0))
    assert cut_for_waiting(rooms([node], []), waiting, {}).gpu == "GPU-gpu01-0"
    assert cut_for_waiting(rooms([replace(node, state=NodeState.DRAINED)], []), waiting, {}) is None


@pytest.mark.parametrize(
    ("share", "changed"), [("mig:4g.20gb", {}), ("mig:3g.20gb", {"instances": None}), ("1", {})]
)
def test_no_cut_is_wished_for_what_the_gpu_has_not_or_needs_none_for(share, changed):
    node = auto_node(*[("1g.5gb", start) for start in range(7)])
    node = replace(node, gpus=(replace(node.gpus[0], **changed),))
    assert cut_for_waiting(rooms([node], []), [a_session(gpus=share)], {}) is None


def test_one_that_can_sit_down_already_needs_no_cut():
    node = auto_node(("3g.20gb", 0))
    assert can_sit(a_session(gpus="mig:3g.20gb").request, Room.empty(node)) is True
    assert can_sit(a_session(gpus="mig:7g.40gb").request, Room.empty(node)) is False
    assert cut_for_waiting(rooms([node], []), [a_session(gpus="mig:3g.20gb")], {}) is None


def test_of_two_gpus_that_lose_as_many_the_one_that_serves_more_is_cut():
    held = GpuSeat(0, "GPU-a-0", 1, 1, profile="3g.20gb", start=0, size=4)
    there = rooms([auto_node(("3g.20gb", 0), name="a"), auto_node(name="b")], [])
    there["a"].gpus[0].take(held)
    holders = {"GPU-a-0": [Holder("held", "bob", held)]}
    waiting = [a_session(gpus="mig:3g.20gb"), a_session(gpus="mig:3g.20gb")]
    found = cut_for_waiting(there, waiting, holders)
    assert (found.node, len(found.serves)) == ("b", 2)


def test_a_gpu_with_a_fixed_cut_is_used_where_somebody_holds_or_computes():
    gpu = a_gpu(mig=A100_CUTS, instances=cut(("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2)))
    held = Holder("held", "bob", GpuSeat(0, gpu.uuid, 1, 1, profile="1g.5gb", start=0, size=1))
    plain = Holder("old", "bob", GpuSeat(0, gpu.uuid, 1, 1, start=2))
    assert cut_now(gpu, A100_CUTS, [held, plain], {"MIG-1"}).in_use == {0, 1}


def test_one_that_is_cut_on_demand_has_the_instances_that_are_held():
    gpu = a_gpu(mig=A100_CUTS)
    held = Holder("held", "bob", GpuSeat(0, gpu.uuid, 1, 1, profile="3g.20gb", start=4, size=4))
    plain = Holder("old", "bob", GpuSeat(0, gpu.uuid, 1, 1, start=2))
    now = cut_now(gpu, A100_CUTS, [held, plain])
    assert ([(one.profile, one.start, one.size) for one in now.instances], now.in_use) == (
        [("3g.20gb", 4, 4)],
        {4},
    )


def test_a_node_takes_new_cuts_and_whose_follow_the_queue():
    node = a_node(gpus=2)
    first, second = (gpu.uuid for gpu in node.gpus)
    assert with_cuts(node, {}, ()) is node
    made = with_cuts(node, {first: Cut(A100_CUTS, ())}, {second})
    assert [(gpu.mig, gpu.instances, gpu.mig_auto) for gpu in made.gpus] == [
        (A100_CUTS, (), False),
        (None, None, True),
    ]


def test_only_gpus_whose_cut_follows_the_queue_are_as_good_as_uncut():
    auto, fixed = auto_node(("1g.5gb", 0)).gpus[0], a_gpu(1, mig=A100_CUTS, instances=cut(("1g.5gb", 0)))
    node = replace(a_node(), gpus=(auto, fixed))
    assert [gpu.instances for gpu in as_it_may_be_cut(node).gpus] == [None, fixed.instances]


def test_an_instance_takes_its_part_of_compute_and_the_memory_that_the_driver_reports():
    seat = instance_on(best_cut("3g.20gb", [a_gpu_room()], {}))
    assert (seat.parts, seat.memory_bytes, seat.profile, seat.size) == (
        3 * PARTS // 7,
        20 * GIB,
        "3g.20gb",
        4,
    )
    unseen = replace(A100_CUTS, profiles=(replace(HALF, memory_bytes=None),))
    assert instance_on(best_cut("3g.20gb", [a_gpu_room(mig=unseen)], {})).memory_bytes == 20 * GIB


def test_an_instance_that_is_there_and_free_is_taken_and_no_other():
    gpu = a_gpu_room(instances=cut(("1g.5gb", 0), ("1g.5gb", 1), ("3g.20gb", 4)))
    gpu.cut = ((0, 1),)
    (found,) = cuts_on(gpu, 0, "1g.5gb", {})
    assert (found.start, found.uuid, found.to_be_cut, found.left) == (1, "MIG-1", False, 7)
    gpu.cut = ((0, 1), (1, 1))
    assert cuts_on(gpu, 0, "1g.5gb", {}) == []


@pytest.mark.parametrize("fields", [{"mig": None}, {"mig": replace(A100_CUTS, profiles=(HALF,))}])
def test_a_gpu_without_the_profile_offers_no_place(fields):
    assert cuts_on(a_gpu_room(**fields), 0, "1g.5gb", {}) == []


def test_a_gpu_whose_media_engines_are_held_offers_no_second_set():
    gpu = a_gpu_room()
    gpu.media = 1
    assert cuts_on(gpu, 0, "1g.5gb+me", {}) == []
    assert cuts_on(gpu, 0, "1g.5gb", {}) != []


def test_of_gpus_that_lose_as_much_the_fullest_is_cut():
    empty, full = a_gpu_room(), a_gpu_room()
    full.cut = ((0, 4),)
    assert best_cut("3g.20gb", [empty, full], {"3g.20gb": 1.0}).place == 1
    there = [(A100_CUTS, []), (A100_CUTS, [(0, 4)])]
    assert best_cut_for_mix(there, "3g.20gb", {"3g.20gb": 1.0}) == (1, 4)
    assert best_cut_for_mix(there, "4g.20gb", {}) is None


def test_slices_are_lost_that_the_mix_cannot_use():
    assert unusable_slices(A100_CUTS, [], {"3g.20gb": 1.0}) == 0.0
    assert unusable_slices(A100_CUTS, [(0, 1)], {"3g.20gb": 1.0}) == 3.0
    assert unusable_slices(A100_CUTS, [], {"1g.5gb": 1.0}) == 1.0
    assert unusable_slices(A100_CUTS, [(0, 1)], {"3g.20gb": 3.0, "1g.5gb": 1.0}) == pytest.approx(
        0.75 * 3 + 0.25 * 1
    )


def test_a_mix_of_nothing_or_of_other_gpus_profiles_is_an_even_one():
    even = {profile.name: 0.2 for profile in A100_CUTS.profiles}
    for mix in ({}, {"4g.20gb": 1.0}, {"3g.20gb": 0.0}, {"3g.20gb": -1.0}):
        assert unusable_slices(A100_CUTS, [(0, 1)], mix) == pytest.approx(
            unusable_slices(A100_CUTS, [(0, 1)], even)
        )


def test_the_cost_of_each_open_place_is_known():
    costs = cut_costs(A100_CUTS, MEDIUM, [(0, 1)], {"3g.20gb": 1.0})
    assert {start: (cost.unusable_more, cost.region_less, cost.start_less) for start, cost in costs.items()} == {
        2: (-2.0, -4, -2), 4: (2.0, -3, -4),
    }  # fmt: skip
    assert best_start_for_mix(A100_CUTS, MEDIUM, [(0, 1)], {"3g.20gb": 1.0}) == 2
    assert best_start_for_mix(A100_CUTS, WHOLE, [(0, 1)], {}) is None


def test_slices_that_are_taken_are_one_number():
    assert (mask_of([]), mask_of([(0, 1)]), mask_of([(4, 4), (1, 2)])) == (0, 1, 0b11110110)


def test_one_who_asks_for_a_profile_that_the_gpu_has_not_is_not_served_by_its_cut():
    waiting = [a_session(gpus="mig:3g.20gb"), a_session(gpus="mig:4g.20gb")]
    found = cut_for_waiting(rooms([auto_node(("1g.5gb", 0))], []), waiting, {})
    assert found.serves == (waiting[0].id,)


def test_a_gpu_that_is_not_in_mig_mode_is_passed_over_in_a_node_of_both():
    node = auto_node(("1g.5gb", 0))
    both = replace(node, gpus=(a_gpu(1), *node.gpus))
    assert cut_for_waiting(rooms([both], []), [a_session(gpus="mig:3g.20gb")], {}).gpu == "GPU-gpu01-0"


def test_a_cut_of_one_gpu_is_no_cut_of_another_in_the_same_node():
    node = auto_node(("1g.5gb", 0))
    other = replace(node.gpus[0], index=1, uuid="GPU-gpu01-1", kind="A100-80GB")
    waiting = [a_session(gpus="mig:3g.20gb", gpu_kind=kind) for kind in ("A100-40GB", "A100-80GB")]
    found = cut_for_waiting(rooms([replace(node, gpus=(*node.gpus, other))], []), waiting, {})
    assert (found.gpu, found.serves) == ("GPU-gpu01-0", (waiting[0].id,))


def test_an_instance_that_is_cut_already_goes_before_a_cut_that_would_mend_a_half():
    broken, fixed = a_gpu_room(), a_gpu_room(instances=cut(("2g.10gb", 0)))
    broken.cut = ((0, 1),)
    assert cuts_on(broken, 0, "2g.10gb", {"3g.20gb": 1.0})[0].unusable_more < 0
    assert best_cut("2g.10gb", [broken, fixed], {"3g.20gb": 1.0}).place == 1
