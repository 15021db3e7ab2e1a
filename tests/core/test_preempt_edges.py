"""Preemption, at its edges: who may be sent away by whom, who leaves anyway, and that nobody leaves in vain."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.booking import Booking, Calendar
from gpufairy.core.cluster import Policy
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import NodeState
from gpufairy.core.plan import plan
from gpufairy.core.preempt import (
    MOST_HEADS,
    Preempt,
    could_sit,
    evictions,
    is_guest,
    is_leaving,
    lost_gpu_seconds,
    may_send_away,
    runs,
    units_of,
    why_sent,
)
from gpufairy.core.promise import Promise
from gpufairy.core.room import rooms
from gpufairy.core.session import Wanted
from gpufairy.core.timeline import OVERDUE
from scenes import NOW, a_cluster, a_node, a_session, seated

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
GPU = "GPU-gpu01-0"
COURSE = Booking("b1", "course", "kim", ("user:ann",), (GPU,), NOW - HOUR, NOW + HOUR, NOW - HOUR)


def marked(name="", **fields):
    return a_session(name, **{"preemptible": True, "owner": "bea", **fields})


def running(*sessions, nodes=None, minutes_ago=60.0, holding=()):
    return seated(sessions, nodes or [a_node(gpus=4)], minutes_ago, holding)


def sent(nodes, waiting, holding, promises=(), **fields):
    cluster = a_cluster(nodes, (), holding, **fields)
    made = evictions(cluster, waiting, rooms(nodes, holding), NOW, promises)
    return [(one.victim.name, one.for_session.name) for one in made]


@pytest.mark.parametrize(
    ("victim", "policy", "may"),
    [
        ({"preemptible": True}, {}, True), ({}, {}, False), ({"preemptible": True}, {"preempt": Preempt.OFF}, False),
        ({"priority": -1}, {}, False), ({"priority": -1}, {"preempt": Preempt.LOWER}, True),
        ({"priority": 0}, {"preempt": Preempt.LOWER}, False), ({"priority": 1}, {"preempt": Preempt.LOWER}, False),
        ({"preemptible": True, "priority": 9}, {"preempt": Preempt.LOWER}, True),
    ],
)  # fmt: skip
def test_those_who_are_marked_may_be_sent_away_and_where_policy_says_so_a_lower_priority(victim, policy, may):
    (one,) = running(a_session(owner="bea", **victim))
    assert may_send_away(a_session(), one, a_cluster(policy=Policy(**policy)), NOW) is may


@pytest.mark.parametrize(("ran", "may"), [(10 * MINUTE, True), (10 * MINUTE - SECOND, False)])
def test_whoever_has_run_for_ten_minutes_may_be_sent_away(ran, may):
    (one,) = running(marked())
    assert may_send_away(a_session(), replace(one, started_at=NOW - ran), a_cluster(), NOW) is may
    assert not may_send_away(a_session(), replace(one, started_at=None), a_cluster(), NOW)


def test_a_guest_in_what_is_lent_may_be_sent_away_at_once():
    (one,) = running(marked(gpus="2"), minutes_ago=1)
    own, lent = one.seat.gpus
    guest = replace(one, seat=replace(one.seat, gpus=(own, replace(lent, borrowed=True))))
    assert (is_guest(one), is_guest(guest), is_guest(a_session())) == (False, True, False)
    assert may_send_away(a_session(), guest, a_cluster(), NOW)


@pytest.mark.parametrize(
    ("head", "victim", "may"),
    [("ann", {}, True), ("zoe", {}, False), ("ann", {"preemptible": False}, False)],
)
def test_whose_a_booked_gpu_is_has_it_back_from_a_guest_at_once_whatever_the_policy(head, victim, may):
    (one,) = running(marked(**victim), nodes=[a_node()], minutes_ago=1)
    cluster = a_cluster(calendar=Calendar.of((COURSE,), [one], NOW), policy=Policy(preempt=Preempt.OFF))
    assert may_send_away(a_session(owner=head), one, cluster, NOW) is may


@pytest.mark.parametrize(
    ("fields", "is_running"),
    [({}, True), ({"phase": Phase.STARTING}, False), ({"wanted": Wanted.STOP}, False), ({"seat": None}, False), ({"started_at": None}, False)],
)  # fmt: skip
def test_only_one_that_runs_and_is_to_go_on_can_be_asked_to_leave(fields, is_running):
    (one,) = running(marked())
    assert runs(replace(one, **fields)) is is_running


def test_of_a_gang_all_can_leave_or_nobody():
    pair = running(marked(gang="g"), marked(gang="g"))
    assert [len(unit) for unit in units_of(a_cluster(holding=pair))] == [2]
    half = [pair[0], replace(pair[1], phase=Phase.STOPPING)]
    assert units_of(a_cluster(holding=half)) == []


def test_those_who_are_not_marked_can_leave_only_where_priorities_count():
    plain = running(a_session())
    assert units_of(a_cluster(holding=plain)) == []
    assert len(units_of(a_cluster(holding=plain, policy=Policy(preempt=Preempt.LOWER)))) == 1


@pytest.mark.parametrize(
    ("end", "leaving"),
    [(30 * SECOND, True), (31 * SECOND, False), (-OVERDUE, True), (-OVERDUE - SECOND, False)],
)
def test_one_whose_time_is_up_within_the_notice_leaves_by_itself(end, leaving):
    (one,) = running(a_session(time_limit=HOUR))
    assert is_leaving(replace(one, started_at=NOW + end - HOUR), NOW, 30 * SECOND) is leaving


def test_one_without_a_limit_never_leaves_by_itself_and_one_that_was_told_does():
    (one,) = running(a_session())
    assert not is_leaving(one, NOW, 30 * SECOND)
    for told in ({"phase": Phase.STOPPING}, {"wanted": Wanted.STOP}):
        assert is_leaving(replace(one, since=NOW, **told), NOW, 30 * SECOND)
        assert not is_leaving(replace(one, since=NOW - OVERDUE - SECOND, **told), NOW, 30 * SECOND)


def test_what_is_lost_is_gpus_by_the_time_they_computed():
    (one,) = running(marked(gpus="2"))
    assert lost_gpu_seconds(one, NOW) == 2 * 3600
    assert lost_gpu_seconds(replace(one, started_at=NOW + HOUR), NOW) == 0.0
    assert (
        lost_gpu_seconds(replace(one, started_at=None), NOW)
        == lost_gpu_seconds(replace(one, seat=None), NOW)
        == 0.0
    )


def test_who_is_sent_away_is_told_by_which_right():
    head = a_session(priority=3)
    assert why_sent(marked(), head) == "ann is first in line for what it holds, and it is preemptible"
    assert why_sent(a_session(priority=1), head).endswith("its priority is 1, theirs 3")


def test_a_node_where_the_first_to_leave_loses_as_much_as_all_elsewhere_is_not_tried():
    nodes = [a_node("gpu01"), a_node("gpu02")]
    halves = running(
        marked("half-1", gpus="0.5"), marked("half-2", gpus="0.5"), nodes=nodes[:1], minutes_ago=60
    )
    whole = running(marked("whole"), nodes=nodes[1:], minutes_ago=60)
    assert sent(nodes, [a_session("head")], [*whole, *halves]) == [("half-1", "head"), ("half-2", "head")]
    younger = [replace(whole[0], started_at=NOW - HOUR + SECOND)]
    assert sent(nodes, [a_session("head")], [*younger, *halves]) == [("whole", "head")]


def test_one_that_is_cheaper_to_send_away_is_found_behind_a_node_where_nothing_helps():
    nodes = [a_node("gpu01", gpus=1), a_node("gpu02", gpus=2)]
    young = running(marked("young"), nodes=nodes[:1], minutes_ago=20)
    old = running(marked("old", gpus="2"), nodes=nodes[1:], minutes_ago=600)
    assert sent(nodes, [a_session("head", "2")], [*young, *old]) == [("old", "head")]


def test_the_second_in_line_counts_on_nothing_that_was_made_free_for_the_first():
    nodes = [a_node(gpus=2)]
    low = running(marked("low-1"), marked("low-2"), nodes=nodes)
    assert sorted(sent(nodes, [a_session("a"), a_session("b")], low)) == [("low-1", "a"), ("low-2", "b")]
    assert sent(nodes, [a_session("a"), a_session("b", "2")], low) == [("low-1", "a")]


def test_what_is_promised_to_one_who_cannot_be_helped_is_not_counted_on_by_the_next():
    nodes = [a_node("gpu01", gpus=2), a_node("gpu02", gpus=1)]
    fixed = running(a_session("fixed", owner="cy"), nodes=nodes[:1])
    low = running(marked("low"), nodes=nodes[:1], holding=fixed)
    head, behind = a_session("head", "2"), a_session("behind")
    (seat,) = (one.seat for one in running(a_session(gpus="2"), nodes=nodes[:1]))
    promise = Promise(head, NOW + HOUR, (seat,), {})
    other = running(a_session("other", owner="cy"), nodes=nodes[1:])
    holding = [*fixed, *low, *other]
    assert sent(nodes, [head, behind], holding) == [("low", "behind")]
    assert sent(nodes, [head, behind], holding, [promise]) == []


def test_somebody_who_leaves_anyway_makes_room_and_nobody_is_sent():
    nodes = [a_node(gpus=2)]
    low, leaving = running(marked("low"), marked("leaving"), nodes=nodes)
    told = replace(leaving, phase=Phase.STOPPING, since=NOW)
    assert sent(nodes, [a_session("head")], [low, told]) == []
    assert sent(nodes, [a_session("head"), a_session("next")], [low, told]) == [("low", "next")]


def test_nobody_leaves_for_one_who_may_be_sent_away_itself():
    nodes = [a_node()]
    assert sent(nodes, [marked("head", owner="ann")], running(marked("low"), nodes=nodes)) == []


def test_a_node_that_is_gone_is_nobodys_place():
    low = running(marked("low"), nodes=[a_node("gone")])
    assert sent([a_node()], [a_session("head", "8")], low) == []


def test_in_one_pass_fifty_are_looked_at():
    nodes = [a_node("gpu01", gpus=1), a_node("gpu02", gpus=8)]
    low = running(marked("low"), nodes=nodes[:1])
    hopeless = [a_session(gpus="64") for _ in range(MOST_HEADS)]
    assert MOST_HEADS == 50
    assert sent(nodes, [*hopeless[1:], a_session("head", on_gpu=GPU)], low) == [("low", "head")]
    assert sent(nodes, [*hopeless, a_session("head", on_gpu=GPU)], low) == []


@pytest.mark.parametrize(
    ("asked", "node", "could"),
    [
        ({}, {}, True), ({"gpus": "3"}, {}, False), ({"gpus": "2"}, {}, True), ({"gpus": "0"}, {"gpus": 0}, True),
        ({"gpus": "0.5"}, {"gpus": 0}, False), ({"gpus": "0.5"}, {"gpus": 1}, True), ({"gpu_kind": "H100"}, {}, False),
        ({}, {"state": NodeState.DRAINED}, False), ({"pool": "a"}, {}, False), ({"pool": "a"}, {"pool": "a"}, True),
    ],
)  # fmt: skip
def test_at_a_glance_a_node_could_hold_it_or_not(asked, node, could):
    assert could_sit(a_session(**asked).request, a_node(**{"gpus": 2, **node})) is could


def test_a_plan_asks_a_guest_to_leave_for_the_one_whose_gpu_it_sits_on():
    nodes = [a_node()]
    guest = running(marked("guest"), nodes=nodes, minutes_ago=1)
    calendar = Calendar.of((COURSE,), guest, NOW)
    made = plan(a_cluster(nodes, [a_session("mine")], guest, calendar=calendar), NOW)
    assert [(one.victim.name, one.for_session.name) for one in made.evictions] == [("guest", "mine")]


def test_a_gang_of_which_one_leaves_anyway_is_not_sent_away():
    nodes = [a_node(gpus=2)]
    ending, endless = running(
        marked("ending", gang="g", time_limit=HOUR), marked("endless", gang="g"), nodes=nodes
    )
    assert sent(nodes, [a_session("head"), a_session("next")], [ending, endless]) == []


def test_of_three_the_one_whose_place_is_not_needed_stays():
    nodes = [a_node(gpus=3)]
    halves = running(marked("half", gpus="0.5"), a_session("fixed", "0.5"), nodes=nodes, minutes_ago=20)
    two = running(marked("one"), marked("two"), nodes=nodes, minutes_ago=60, holding=halves)
    assert sorted(name for name, _ in sent(nodes, [a_session("head", "2")], [*halves, *two])) == [
        "one",
        "two",
    ]


def test_one_who_leaves_a_node_that_is_gone_makes_room_nowhere():
    nodes = [a_node()]
    (told,) = (
        replace(one, phase=Phase.STOPPING, since=NOW)
        for one in running(a_session("told"), nodes=[a_node("gone")])
    )
    low = running(marked("low"), nodes=nodes)
    assert sent(nodes, [a_session("head")], [told, *low]) == [("low", "head")]
