"""Preemption: only of those who may be, the least work lost, the fewest, and never in a circle."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.cluster import Policy
from gpufairy.core.fit import fit
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plan import plan
from gpufairy.core.preempt import Preempt
from gpufairy.core.queue import Queue
from gpufairy.core.room import rooms
from gpufairy.core.session import Seat, Wanted
from gpufairy.core.steps import place, requeue, send_back
from scenes import NOW, a_cluster, a_node, a_session, seated

HOUR = timedelta(hours=1)


def marked(name="", **fields):
    return a_session(name, preemptible=True, **fields)


def sent_away(nodes, waiting, holding, **policy):
    made = plan(a_cluster(nodes, waiting, holding, policy=Policy(**policy)), NOW)
    return sorted(eviction.victim.name for eviction in made.evictions)


def test_a_preemptible_session_makes_room_for_one_that_does_not_fit():
    nodes = [a_node()]
    victims = seated([marked("low", owner="bea")], nodes, minutes_ago=60)
    made = plan(a_cluster(nodes, [a_session("first")], victims), NOW)
    (eviction,) = made.evictions
    assert (eviction.victim.name, eviction.for_session.name) == ("low", "first")
    assert "ann is first in line" in eviction.why
    assert "it is preemptible" in eviction.why


def test_nobody_is_sent_away_who_was_not_marked_or_for_one_that_is_preemptible_itself():
    nodes = [a_node()]
    assert sent_away(nodes, [a_session()], seated([a_session("fixed", owner="bea")], nodes, minutes_ago=60)) == []
    assert sent_away(nodes, [marked()], seated([marked("low", owner="bea")], nodes, minutes_ago=60)) == []


def test_with_preemption_off_nobody_leaves():
    nodes = [a_node()]
    assert sent_away(nodes, [a_session()], seated([marked()], nodes, minutes_ago=60), preempt=Preempt.OFF) == []


def test_whoever_has_just_started_is_left_alone():
    nodes = [a_node()]
    victims = seated([marked("low")], nodes, minutes_ago=9)
    assert sent_away(nodes, [a_session()], victims, preempt_after=timedelta(minutes=10)) == []
    assert sent_away(nodes, [a_session()], victims, preempt_after=timedelta(minutes=9)) == ["low"]


def test_a_lower_priority_leaves_only_where_policy_says_so():
    nodes = [a_node()]
    holding = seated([a_session("plain", owner="bea", priority=-1)], nodes, minutes_ago=60)
    assert sent_away(nodes, [a_session()], holding) == []
    assert sent_away(nodes, [a_session()], holding, preempt=Preempt.LOWER) == ["plain"]
    assert sent_away(nodes, [a_session(priority=-1)], holding, preempt=Preempt.LOWER) == []


def test_the_least_work_is_lost():
    nodes = [a_node("gpu01"), a_node("gpu02")]
    old = seated([marked("old")], nodes[:1], minutes_ago=600)
    young = seated([marked("young")], nodes[1:], minutes_ago=20)
    assert sent_away(nodes, [a_session()], [*old, *young]) == ["young"]


def test_who_would_leave_in_vain_is_given_back():
    """The youngest is on the wrong GPU kind's node, the next alone is too small: only what is needed leaves."""
    nodes = [a_node(gpus=2)]
    half = seated([marked("half-1", gpus="0.5"), marked("half-2", gpus="0.5")], nodes, minutes_ago=20)
    whole = seated([marked("whole")], nodes, minutes_ago=200, holding=half)
    assert sent_away(nodes, [a_session(gpus="1")], [*half, *whole]) == ["half-1", "half-2"]
    assert sent_away(nodes, [a_session(gpus="0.5")], [*half, *whole]) == ["half-1"]


def test_victims_are_where_the_first_in_line_can_sit():
    nodes = [a_node("gpu01", pool="main"), a_node("gpu02", pool="spare")]
    holding = [*seated([marked("main-one")], nodes[:1], minutes_ago=600), *seated([marked("spare-one")], nodes[1:], minutes_ago=20)]
    assert sent_away(nodes, [a_session(pool="main")], holding) == ["main-one"]
    assert sent_away(nodes, [a_session(gpu_kind="H200")], holding) == []


def test_nobody_leaves_where_all_of_them_would_not_be_enough():
    nodes = [a_node(gpus=2)]
    fixed = seated([a_session("fixed")], nodes, minutes_ago=60)
    low = seated([marked("low")], nodes, minutes_ago=60, holding=fixed)
    assert sent_away(nodes, [a_session(gpus="2")], [*fixed, *low]) == []


@pytest.mark.parametrize("leaving", [{"phase": Phase.STOPPING}, {"wanted": Wanted.STOP}])
def test_while_somebody_leaves_already_nobody_else_is_asked(leaving):
    nodes = [a_node(gpus=2)]
    first, second = seated([marked("first"), marked("second")], nodes, minutes_ago=60)
    assert sent_away(nodes, [a_session()], [replace(first, since=NOW, **leaving), second]) == []
    stuck = replace(first, since=NOW - HOUR, phase=Phase.STOPPING)
    assert sent_away(nodes, [a_session()], [stuck, second]) == ["second"]


def test_a_gang_leaves_whole_and_one_is_made_room_for_whole():
    nodes = [a_node("gpu01"), a_node("gpu02")]
    gang = seated([marked("g-1", gang="g", gang_size=2), marked("g-2", gang="g", gang_size=2)], nodes, minutes_ago=60)
    assert sent_away(nodes, [a_session()], gang) == ["g-1", "g-2"]
    lone = seated([marked("low-1"), marked("low-2")], nodes, minutes_ago=60)
    pair = tuple(a_session(f"h-{n}", gang="h", gang_size=2) for n in (1, 2))
    cluster = a_cluster(nodes, pair, lone, gangs={"h": pair})
    assert sorted(one.victim.name for one in plan(cluster, NOW).evictions) == ["low-1", "low-2"]


class World:
    """A cluster in which everything happens at once that the loops would do, and nobody ever ends."""

    def __init__(self, sessions, nodes, policy):
        self.nodes, self.policy, self.now = nodes, policy, NOW
        self.waiting = {session.id: session for session in sessions}
        self.holding = {}
        self.sent = []  # (for whom, whom)

    def cluster(self):
        queues = {}
        for session in self.waiting.values():
            queues.setdefault(session.owner, Queue()).add(session)
        return replace(a_cluster(self.nodes), holding=tuple(self.holding.values()), waiting=queues, policy=self.policy)

    def step(self):
        made = plan(self.cluster(), self.now)
        for placed in made.placed:
            del self.waiting[placed.session.id]
            started = place(placed.session, placed.seat, self.now, "").after
            self.holding[started.id] = replace(started, phase=Phase.RUNNING, started_at=self.now)
        for eviction in made.evictions:
            victim = self.holding.pop(eviction.victim.id)
            self.sent.append((eviction.for_session.id, victim.id))
            left = requeue(send_back(victim, self.now, eviction.why).after, self.now, "").after
            self.waiting[left.id] = left
        self.now += timedelta(minutes=7)  # the pass that follows at once, while those who left rest, is a step too
        return bool(made.placed or made.evictions)


asked = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from(["0.25", "0.5", "1", "2"]),
        "owner": st.sampled_from(["ann", "bea", "cem"]),
        "preemptible": st.booleans(),
        "priority": st.integers(-2, 2),
        "cpus_milli": st.sampled_from([1000, 8000]),
    }
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(asked, max_size=14), st.sampled_from(Preempt), st.integers(1, 2))
def test_preemption_comes_to_an_end_and_no_two_ever_preempt_each_other(wanted, preempt, nodes):
    policy = Policy(preempt=preempt, preempt_after=timedelta(minutes=10))
    machines = [a_node(f"gpu{number}", gpus=2) for number in range(nodes)]
    world = World([a_session(submitted_at=NOW, **fields) for fields in wanted], machines, policy)
    for _ in range(60):
        world.step()
    quiet_at = len(world.sent)
    for _ in range(10):
        world.step()
    assert len(world.sent) == quiet_at
    assert not {(b, a) for a, b in world.sent} & set(world.sent)
    assert len(set(world.sent)) == len(world.sent)  # nor is anybody sent away twice for the same one


@settings(max_examples=150, deadline=None)
@given(st.lists(asked, max_size=10), st.lists(asked, min_size=1, max_size=3), st.sampled_from(Preempt))
def test_those_who_leave_are_enough_and_none_is_too_many(there, coming, preempt):
    nodes = [a_node("gpu01", gpus=2), a_node("gpu02", gpus=1)]
    start = NOW - HOUR
    placed = plan(a_cluster(nodes, [a_session(**fields) for fields in there]), start).placed
    holding = [replace(place(one.session, one.seat, start, "").after, phase=Phase.RUNNING, started_at=start) for one in placed]
    made = plan(a_cluster(nodes, [a_session(**fields) for fields in coming], holding, policy=Policy(preempt=preempt)), NOW)
    seats = [replace(one.session, seat=one.seat) for one in made.placed]
    for head in {eviction.for_session for eviction in made.evictions}:
        # Those before it in line leave nobody's place to it: so all who leave count together, with the heads before it seated.
        gone = {eviction.victim.id for eviction in made.evictions}
        assert fits(head, nodes, [one for one in [*holding, *seats] if one.id not in gone])
        own = {eviction.victim.id for eviction in made.evictions if eviction.for_session == head}
        if len({eviction.for_session for eviction in made.evictions}) == 1:
            assert all(not fits(head, nodes, [one for one in [*holding, *seats] if one.id not in own - {back}]) for back in own)
    for eviction in made.evictions:
        assert preempt is not Preempt.OFF
        assert eviction.victim.request.preemptible or eviction.victim.priority < eviction.for_session.priority
        assert not eviction.for_session.request.preemptible


def fits(head, nodes, holding):
    return any(isinstance(fit(head.request, room), Seat) for room in rooms(nodes, holding).values())
