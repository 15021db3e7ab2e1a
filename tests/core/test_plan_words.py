"""Plans, promises and turns in small: what is told of a seat, who may pass a promise, and what a standing is made of."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.booking import UNUSED_AFTER, Booking, Calendar
from gpufairy.core.cluster import Policy, Totals, Weights
from gpufairy.core.fair_tree import FairTree, team_of
from gpufairy.core.fit import Refusal
from gpufairy.core.ledger import tau_s
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plan import (
    Asking,
    Placement,
    all_at_once,
    asking_of,
    fit_beside,
    fit_booked,
    plan,
    seat_for,
)
from gpufairy.core.pool import COMING
from gpufairy.core.preempt import Preempt
from gpufairy.core.promise import PATIENCE, Promise
from gpufairy.core.queue import asked_of
from gpufairy.core.quota_rules import Quota
from gpufairy.core.room import Room
from gpufairy.core.run_time import Stay
from gpufairy.core.session import Seat
from gpufairy.core.share import PARTS
from gpufairy.core.timeline import SHORT
from gpufairy.core.turn import (
    HELD_COUNTS,
    LEAST_LOOKS,
    charge_parts,
    counts_at_once,
    likely_charge,
    standings,
)
from scenes import GIB, NOW, a_cluster, a_gpu, a_node, a_session, names, seated

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
SEAT = Seat("gpu01", 1000, GIB)


def a_promise(start=NOW + HOUR, submitted=NOW, spares=None):
    return Promise(a_session(submitted_at=submitted), start, (SEAT,), spares or {})


def test_a_seat_is_told_with_how_long_it_was_waited_for_and_where_it_is():
    assert Placement(a_session(), SEAT, 2 * HOUR).why == "waited 2 h, goes to gpu01"
    told = Placement(a_session(), replace(SEAT, node=f"cloud{COMING}1"), HOUR).why
    assert told == "waited 1 h, a node of pool cloud is woken for it"


@pytest.mark.parametrize(
    ("stay", "start", "passes"),
    [
        (Stay(HOUR, True), NOW + HOUR, True), (Stay(HOUR + SECOND, True), NOW + HOUR, False), (Stay(None, False), NOW + HOUR, False),
        (Stay(SHORT, True), None, True), (Stay(SHORT + SECOND, True), None, False), (Stay(HOUR, False), NOW + HOUR, True),
    ],
)  # fmt: skip
def test_one_may_sit_in_what_is_promised_if_it_is_gone_by_then(stay, start, passes):
    assert a_promise(start).lets_pass(stay, NOW) is passes


@pytest.mark.parametrize(("waited", "passes"), [(PATIENCE, True), (PATIENCE + SECOND, False)])
def test_whoever_has_waited_for_six_hours_is_passed_by_nobody_on_an_estimate(waited, passes):
    promise = a_promise(submitted=NOW - waited)
    assert promise.lets_pass(Stay(MINUTE, False), NOW) is passes
    assert promise.lets_pass(Stay(MINUTE, True), NOW) is True
    assert timedelta(hours=6) == PATIENCE


def test_what_must_be_left_alone_is_on_the_nodes_of_the_promise_alone():
    spare = Room.empty(a_node())
    promise = a_promise(spares={"gpu01": spare})
    assert promise.spare_on("gpu01", Stay(9 * HOUR, True), NOW) is spare
    assert promise.spare_on("gpu01", Stay(MINUTE, True), NOW) is None
    assert promise.spare_on("gpu02", Stay(9 * HOUR, True), NOW) is None
    assert promise.node == "gpu01"


def test_beside_a_promise_one_sits_in_what_it_spares():
    room, spare = Room.empty(a_node(gpus=2)), Room.empty(a_node(gpus=2))
    spare.gpus[0].unheld_parts = 0
    promise, long = a_promise(spares={"gpu01": spare}), Asking(Stay(9 * HOUR, True), {})
    assert fit_beside(a_session().request, room, [], NOW, long).gpus[0].index == 0
    assert fit_beside(a_session().request, room, [promise], NOW, long).gpus[0].index == 1
    told = fit_beside(a_session(gpus="2").request, room, [promise], NOW, long)
    assert told == Refusal("gpu01", "gpu01 has room, kept for the first in line")
    assert fit_beside(a_session(gpus="3").request, room, [promise], NOW, long).why.endswith("3 asked")


def test_on_what_is_booked_for_it_no_promise_holds():
    room, spare = Room.empty(a_node(gpus=2)), Room.empty(a_node(gpus=2))
    for gpu in spare.gpus:
        gpu.unheld_parts = 0
    asking = Asking(Stay(9 * HOUR, True), {}, frozenset({"GPU-gpu01-1"}))
    found = fit_beside(a_session().request, room, [a_promise(spares={"gpu01": spare})], NOW, asking)
    assert [gpu.index for gpu in found.gpus] == [1]
    assert isinstance(fit_booked(a_session(gpus="2").request, room, asking.booked), Refusal)
    spare.cpus_milli = 0
    none = fit_beside(a_session(gpus="0").request, room, [a_promise(spares={"gpu01": spare})], NOW, asking)
    assert isinstance(none, Refusal), "one without a GPU sits on nothing that is booked"


def test_any_seat_will_do_for_who_only_asks_whether_else_every_node_says_why():
    rooms, asking = [Room.empty(a_node("a", gpus=0)), Room.empty(a_node("b"))], Asking(Stay(None, False), {})
    assert seat_for(a_session().request, rooms, [], NOW, asking).node == "b"
    assert [one.node for one in seat_for(a_session(gpus="2").request, rooms, [], NOW, asking)] == ["a", "b"]


def test_of_those_who_start_together_it_is_told_how_many_would_fit():
    told = all_at_once((Refusal("a", "full"), Refusal("", "a quota")), 1, 3)
    assert [one.why for one in told] == ["full; 1 of the 3 that start together would fit", "a quota"]


def test_one_whose_quota_is_used_up_is_promised_nothing_and_answers_for_nobody_else():
    waiting = [a_session("over"), a_session("other", owner="bob")]
    made = plan(a_cluster([a_node()], waiting, quotas=(Quota("user:ann", gpu_parts=0),)), NOW)
    assert (names(made), made.promises, made.promise) == (["other"], (), None)


def test_a_gang_of_which_one_has_not_left_yet_waits_for_it():
    nodes = [a_node(gpus=4)]
    (old,) = seated([a_session("old", gang="g", gang_size=2)], nodes)
    leaving = replace(old, phase=Phase.STOPPING)
    back = a_session("back", gang="g", gang_size=2)
    made = plan(a_cluster(nodes, [back], [leaving], gangs={"g": (back,)}), NOW)
    assert made.refusals_of(back)[0].why == "old, which starts together with it, has not left its place yet"


def test_those_who_pass_a_promise_are_marked_so():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("old", owner="cy", time_limit=HOUR)], nodes)
    waiting = [a_session("big", "2"), a_session("short", owner="bob", time_limit=MINUTE)]
    made = plan(a_cluster(nodes, waiting, running), NOW)
    assert [(one.session.name, one.passed) for one in made.placed] == [("short", True)]
    alone = plan(a_cluster(nodes, [a_session("first")]), NOW)
    assert [one.passed for one in alone.placed] == [False]


def test_a_pass_places_as_many_as_its_depth():
    waiting = [a_session(f"s{n}") for n in range(5)]
    made = plan(a_cluster([a_node(gpus=8)], waiting, policy=Policy(depth=2)), NOW)
    assert len(made.placed) == 2


def test_a_seat_is_charged_for_the_scarcest_thing_it_takes():
    totals = Totals.of([a_node(gpus=2, cpus=16, memory_gib=128)])
    assert charge_parts(Seat("gpu01", 8000, GIB), totals) == PARTS
    assert charge_parts(Seat("gpu01", 1000, 64 * GIB), totals) == PARTS
    assert charge_parts(seated([a_session()], [a_node(gpus=2)])[0].seat, totals) == PARTS


def test_what_is_held_now_counts_a_little_at_once_and_in_full_as_time_goes_by():
    nodes, half_life = [a_node(gpus=2)], timedelta(days=7)
    (one,) = seated([a_session(team="nlp")], nodes, minutes_ago=60)
    found = standings(a_cluster(nodes, (), [one]), NOW)
    assert set(found) == {"ann", "team:nlp"}
    assert found["ann"] == pytest.approx(HELD_COUNTS + 3600 / tau_s(half_life), rel=1e-2)
    assert standings(a_cluster(nodes, (), [replace(one, seat=None)]), NOW) == {}


def test_a_seat_counts_at_once_for_a_part_of_it_and_the_penalty_of_a_start():
    policy = Policy()
    by_penalty = policy.entry_penalty.total_seconds() / tau_s(policy.half_life)
    assert counts_at_once(2 * PARTS, policy) == pytest.approx(2 * (HELD_COUNTS + by_penalty))


def test_what_a_request_is_likely_charged_is_its_first_seat_on_an_empty_cluster():
    nodes = [a_node("a", gpus=2), a_node("b", gpus=8)]
    empty, totals = [Room.empty(node) for node in nodes], Totals.of(nodes)
    assert likely_charge(a_session(gpus="2").request, empty, totals) == 2 * PARTS
    assert likely_charge(a_session(gpus="99").request, empty, totals) == PARTS


def test_an_owner_is_looked_at_ten_times_at_least_however_many_wait():
    shapes = [a_session(f"big-{n}", "2", memory_bytes=(n + 1) * GIB) for n in range(LEAST_LOOKS - 1)]
    nodes, policy = [a_node()], Policy(depth=1)
    assert LEAST_LOOKS == 10
    assert names(plan(a_cluster(nodes, [*shapes, a_session("small", "0")], policy=policy), NOW)) == ["small"]
    more = [*shapes, a_session("one-more", "2", memory_bytes=99 * GIB), a_session("small", "0")]
    assert names(plan(a_cluster(nodes, more, policy=policy), NOW)) == []


def tree_of(*sessions, had=None, **weights):
    tree = FairTree(had or {}, Weights(**weights))
    for session in sessions:
        tree.add(session, asked_of(session))
    return tree


def owners(tree):
    found = []
    while (place := tree.pop()) is not None:
        found.append(place.owner)
    return found


def test_who_has_had_less_over_their_share_is_next():
    ann, bob = a_session(owner="ann"), a_session(owner="bob")
    assert owners(tree_of(ann, bob, had={"ann": 1.0})) == ["bob", "ann"]
    assert owners(tree_of(ann, bob, had={"ann": 1.0, "bob": 0.9}, users={"ann": 2.0})) == ["ann", "bob"]
    assert owners(tree_of(ann, bob, had={"ann": 0.9, "bob": 1.0}, users={"ann": 0.5})) == ["bob", "ann"]


def test_teams_are_weighed_before_their_members():
    ann, bob = a_session(owner="ann", team="nlp"), a_session(owner="bob", team="vision")
    had = {"team:nlp": 1.0, "team:vision": 0.9, "bob": 9.0}
    assert owners(tree_of(ann, bob, had=had)) == ["bob", "ann"]
    assert owners(tree_of(ann, bob, had=had, teams={"nlp": 2.0})) == ["ann", "bob"]
    assert owners(tree_of(ann, bob, had=had, teams={"vision": 0.5})) == ["ann", "bob"]
    assert owners(tree_of(ann, bob, had={"team:nlp": 0.1}, users={"team:nlp": 100.0})) == ["bob", "ann"]


def test_a_user_who_is_called_like_a_team_is_none():
    assert (team_of(a_session(owner="nlp")), team_of(a_session(team="nlp"))) == ("nlp", "team:nlp")
    ann, nlp = a_session(owner="ann"), a_session(owner="nlp")
    assert owners(tree_of(ann, nlp, had={"ann": 1.0, "nlp": 0.9}, teams={"nlp": 0.1})) == ["nlp", "ann"]


def test_what_is_charged_moves_a_team_back_with_all_of_its_members():
    first, second = a_session(owner="ann", team="nlp"), a_session(owner="amy", team="nlp")
    bob = a_session(owner="bob", team="vision")
    tree = tree_of(first, second, bob)
    assert tree.pop().owner == "ann"
    tree.charge(first, 1.0)
    tree.add(first, asked_of(first))
    assert owners(tree) == ["bob", "amy", "ann"]


def test_priority_counts_before_all_else():
    low, high = a_session(owner="ann"), a_session(owner="bob", priority=1)
    assert owners(tree_of(low, high, had={"bob": 9.0})) == ["bob", "ann"]


@pytest.mark.parametrize(
    ("preempt", "fields", "booked"),
    [
        (Preempt.MARKED, {"preemptible": True}, {"GPU-gpu01-0"}), (Preempt.OFF, {"preemptible": True}, set()),
        (Preempt.MARKED, {}, set()), (Preempt.OFF, {"owner": "bob"}, {"GPU-gpu01-0"}),
    ],
)  # fmt: skip
def test_a_lent_gpu_is_as_a_guests_own_only_where_somebody_may_be_sent_away(preempt, fields, booked):
    course = Booking("b1", "course", "kim", ("user:bob",), ("GPU-gpu01-0",), NOW, NOW + 4 * HOUR, NOW)
    cluster = a_cluster(calendar=Calendar.of((course,), (), NOW), policy=Policy(preempt=preempt))
    assert asking_of(a_session(**fields), cluster, NOW + UNUSED_AFTER).booked == booked


def test_a_gang_that_does_not_fit_gives_back_what_of_a_quota_it_had():
    gang = tuple(a_session(f"g-{n}", gang="g", gang_size=3) for n in range(3))
    other = a_session("other")
    quotas = (Quota("user:ann", gpu_parts=2 * PARTS),)
    made = plan(a_cluster([a_node(gpus=4)], [*gang, other], quotas=quotas, gangs={"g": gang}), NOW)
    assert names(made) == ["other"]


def test_of_two_pools_on_one_node_the_second_is_promised_what_the_first_leaves():
    nodes = [a_node(pool="main")]
    running = seated([a_session("old", owner="cy", time_limit=HOUR)], nodes)
    waiting = [a_session("first"), a_session("second", owner="bob", pool="main")]
    made = plan(a_cluster(nodes, waiting, running), NOW)
    assert [(one.session.name, one.start) for one in made.promises] == [("first", NOW + 55 * MINUTE)]


def test_one_whose_memory_comes_to_more_than_its_part_waits_where_that_is_over_its_quota():
    quotas, whole_memory = (
        (Quota("user:ann", gpu_parts=PARTS // 2),),
        a_session("much", "0.25", gpu_memory_bytes=40 * GIB),
    )
    made = plan(a_cluster([a_node()], [whole_memory], quotas=quotas), NOW)
    assert names(made) == []
    assert names(plan(a_cluster([a_node()], [a_session("little", "0.25")], quotas=quotas), NOW)) == ["little"]


def test_what_a_quota_of_a_kind_closes_to_one_says_nothing_of_another():
    a100, v100 = a_node("gpu01"), replace(a_node("gpu02"), gpus=(a_gpu(0, "gpu02", kind="V100"),))
    busy = seated([a_session("busy", owner="cy")], [v100])
    waiting = [a_session("ann's", priority=1), a_session("bob's", owner="bob")]
    quotas = (Quota("user:ann", "A100", gpu_parts=0),)
    made = plan(a_cluster([a100, v100], waiting, busy, quotas=quotas), NOW)
    assert names(made) == ["bob's"]
