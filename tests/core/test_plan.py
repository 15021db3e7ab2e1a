"""Plan: whose turn it is, who may pass, and what everybody who waits is told."""
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.explain import explain, outlook
from gpufairy.core.fit import fit
from gpufairy.core.ledger import Usage
from gpufairy.core.node import NodeState
from gpufairy.core.plan import plan
from gpufairy.core.queue import ready_at
from gpufairy.core.session import Seat
from gpufairy.core.share import PARTS
from scenes import GIB, NOW, a_cluster, a_node, a_session, names, seated

HOUR = timedelta(hours=1)


def test_two_of_three_start_and_the_third_runs_when_one_has_left():
    nodes, three = [a_node(gpus=2)], [a_session(name, "1") for name in ("one", "two", "three")]
    assert names(plan(a_cluster(nodes, three), NOW)) == ["one", "two"]
    still_there = seated(three[1:2], nodes)
    assert names(plan(a_cluster(nodes, three[2:], still_there), NOW)) == ["three"]


def test_priority_goes_first_then_who_came_first():
    waiting = [a_session("early"), a_session("late"), a_session("urgent", priority=5)]
    assert names(plan(a_cluster([a_node(gpus=2)], waiting), NOW)) == ["urgent", "early"]


def test_who_has_had_least_of_late_goes_first():
    waiting = [a_session("greedy", owner="ann"), a_session("modest", owner="bob")]
    usage = {"ann": Usage(100 * 3600.0, NOW - HOUR), "bob": Usage(3600.0, NOW - HOUR)}
    assert names(plan(a_cluster([a_node()], waiting, usage=usage), NOW)) == ["modest"]


def test_old_use_is_forgiven():
    waiting = [a_session("sinner-of-last-year", owner="ann"), a_session("today", owner="bob")]
    usage = {"ann": Usage(1000 * 3600.0, NOW - timedelta(days=365)), "bob": Usage(3600.0, NOW)}
    assert names(plan(a_cluster([a_node()], waiting, usage=usage), NOW)) == ["sinner-of-last-year"]


def test_what_is_held_now_counts_at_once_so_two_users_share_a_box():
    waiting = [a_session(f"ann-{n}", owner="ann") for n in range(4)] + [a_session(f"bob-{n}", owner="bob") for n in range(4)]
    assert names(plan(a_cluster([a_node(gpus=4)], waiting), NOW)) == ["ann-0", "bob-0", "ann-1", "bob-1"]


def test_cpus_that_block_gpus_are_charged_as_gpus():
    waiting = [a_session("hog", "0", owner="ann", cpus_milli=8000)]
    made = plan(a_cluster([a_node(gpus=4, cpus=16)], waiting), NOW)
    assert made.placed[0].seat.charge_parts == 2 * PARTS


def test_a_small_request_passes_a_big_one_that_cannot_start():
    nodes = [a_node(gpus=4)]
    running = seated([a_session("old", "2", time_limit=HOUR)], nodes)
    waiting = [a_session("big", "4"), a_session("short", "1", time_limit=timedelta(minutes=30))]
    assert names(plan(a_cluster(nodes, waiting, running), NOW)) == ["short"]


def test_one_that_would_delay_the_head_does_not_pass():
    nodes = [a_node(gpus=4)]
    running = seated([a_session("old", "2", time_limit=HOUR)], nodes)
    waiting = [a_session("big", "4"), a_session("long", "1", time_limit=2 * HOUR), a_session("endless", "1")]
    made = plan(a_cluster(nodes, waiting, running), NOW)
    assert names(made) == []
    assert made.promise.start == NOW + timedelta(minutes=55)
    assert "kept for the first in line" in made.refusals_of(waiting[1])[0].why


def test_what_the_head_does_not_need_may_be_used():
    nodes = [a_node(gpus=4)]
    running = seated([a_session("old", "2", time_limit=HOUR)], nodes)
    waiting = [a_session("big", "3"), a_session("endless", "1"), a_session("endless-too", "1")]
    assert names(plan(a_cluster(nodes, waiting, running), NOW)) == ["endless"]


def test_a_head_that_waits_for_somebody_without_a_limit_is_not_starved():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("endless", "1")], nodes)
    made = plan(a_cluster(nodes, [a_session("big", "2"), a_session("small", "1")], running), NOW)
    assert names(made) == []
    assert made.promise.start is None


def test_another_node_than_the_promised_one_is_free_for_all():
    nodes = [a_node("gpu01", gpus=2), a_node("gpu02", gpus=1)]
    running = seated([a_session("old", "2", time_limit=HOUR)], nodes)
    made = plan(a_cluster(nodes, [a_session("big", "2"), a_session("endless", "1")], running), NOW)
    assert [(p.session.name, p.seat.node) for p in made.placed] == [("endless", "gpu02")]


def test_fractions_are_packed_before_a_whole_gpu_is_opened():
    nodes = [a_node(gpus=2)]
    made = plan(a_cluster(nodes, [a_session(f"q{n}", "0.25") for n in range(4)] + [a_session("whole", "1")]), NOW)
    assert {p.seat.gpus[0].index for p in made.placed if p.session.name != "whole"} == {0}
    assert "whole" in names(made)


def test_one_owners_endless_queue_hides_nobody():
    flood = [a_session(f"flood-{n}", "8", owner="ann", memory_bytes=GIB + n) for n in range(3000)]
    nodes = [a_node(gpus=8), a_node("gpu02", gpus=1)]
    running = seated([a_session("hers", "1", owner="bob")], nodes[:1])
    made = plan(a_cluster(nodes, [*flood, a_session("bobs", "1", owner="bob")], running), NOW)
    assert names(made) == ["bobs"]  # on gpu02: gpu01 is kept for the first of the flood


def test_nothing_is_placed_on_a_drained_or_silent_node():
    for state in (NodeState.DRAINED, NodeState.SILENT):
        assert names(plan(a_cluster([a_node(state=state)], [a_session()]), NOW)) == []


def test_a_refused_session_waits_a_little_longer_each_time():
    waits = [(ready_at(a_session(refusals=n, since=NOW)) - NOW).total_seconds() for n in range(1, 6)]
    assert waits == [1, 2, 4, 8, 16]
    assert names(plan(a_cluster(waiting=[a_session(refusals=3, since=NOW)]), NOW)) == []


def test_everybody_who_waits_is_told_place_reason_and_forecast():
    nodes = [a_node(gpus=1)]
    running = seated([a_session("old", time_limit=HOUR)], nodes)
    waiting = [a_session("next", time_limit=HOUR), a_session("after-next")]
    cluster = a_cluster(nodes, waiting, running)
    view = outlook(cluster, plan(cluster, NOW), NOW, 100)
    first, second = (explain(session, view, [], NOW) for session in waiting)
    assert (first.place, first.summary) == (1, "gpu01 has 0 of 1 GPUs wholly free, 1 asked")
    assert first.forecast_start == NOW + timedelta(minutes=55)
    assert second.summary == "gpu01 has 0 of 1 GPUs wholly free, 1 asked; 1 ahead of it"
    assert second.forecast_start == NOW + timedelta(minutes=115)


def test_a_forecast_that_hangs_on_somebody_without_a_limit_is_not_known():
    nodes = [a_node(gpus=1)]
    cluster = a_cluster(nodes, [waiting := a_session("next")], seated([a_session("endless")], nodes))
    told = explain(waiting, outlook(cluster, plan(cluster, NOW), NOW, 100), [], NOW)
    assert told.forecast_start is None
    assert "without a time limit" in told.forecast_why


def test_a_session_after_another_is_told_so():
    cluster = a_cluster()
    told = explain(a_session("b"), outlook(cluster, plan(cluster, NOW), NOW, 100), ["a"], NOW)
    assert told.summary == "waits for a to end well"


SHARES = st.sampled_from(["0", "1", "2", "3", "0.5", "0.25", "0.1", "1fgpu", "mig:1g.5gb", "mig:2g.10gb", "mig:3g.20gb", "mig:7g.40gb"])
SESSIONS = st.builds(
    lambda gpus, owner, cpus, priority, limit: a_session(
        gpus=gpus, owner=owner, cpus_milli=cpus, memory_bytes=None, priority=priority, time_limit=limit and timedelta(minutes=limit)
    ),
    SHARES, st.sampled_from(["ann", "bob", "cy"]), st.sampled_from([None, 500, 4000]), st.integers(-1, 1), st.sampled_from([None, 10, 120]),
)  # fmt: skip
NODES = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=3).map(
    lambda shapes: [a_node(f"n{i}", gpus=gpus, mig=mig) for i, (gpus, mig) in enumerate(shapes)]
)


@settings(max_examples=150, deadline=None)
@given(NODES, st.lists(SESSIONS, max_size=25), st.lists(SESSIONS, max_size=25))
def test_no_plan_overfills_gives_two_seats_or_leaves_anybody_without_a_reason(nodes, earlier, waiting):
    first = plan(a_cluster(nodes, earlier), NOW - HOUR)
    holding = [replace(p.session, seat=p.seat, placed_at=NOW - HOUR, started_at=NOW - HOUR) for p in first.placed]
    cluster = a_cluster(nodes, waiting, holding)
    made = plan(cluster, NOW)
    assert len({p.session.id for p in made.placed}) == len(made.placed)
    rooms = cluster.rooms()
    for placed in made.placed:
        rooms[placed.seat.node].take(placed.seat)
    for room in rooms.values():
        assert room.cpus_milli >= 0
        assert room.memory_bytes >= 0
        for gpu in room.gpus:
            assert 0 <= gpu.free_parts <= PARTS
            cut = [slice_ for start, size in gpu.cut for slice_ in range(start, start + size)]
            assert len(cut) == len(set(cut))
    placed_ids = {placed.session.id for placed in made.placed}
    left = a_cluster(nodes, [session for session in waiting if session.id not in placed_ids])
    view = outlook(replace(cluster, waiting=left.waiting), made, NOW, 100)
    for session in view.order:
        assert explain(session, view, [], NOW).summary


@settings(max_examples=60, deadline=None)
@given(NODES, st.lists(SESSIONS, max_size=12), st.lists(SESSIONS, min_size=1, max_size=12))
def test_backfill_never_delays_the_promise(nodes, earlier, waiting):
    """Whoever passed the head has left, or sits beside its seat, when the promised time comes."""
    before = plan(a_cluster(nodes, earlier), NOW - HOUR)
    holding = [replace(p.session, seat=p.seat, placed_at=NOW - HOUR, started_at=NOW - HOUR) for p in before.placed]
    cluster = a_cluster(nodes, waiting, holding)
    made = plan(cluster, NOW)
    if made.promise is None or made.promise.start is None:
        return
    start, node = made.promise.start, made.promise.node
    rooms = cluster.rooms()
    for session in holding:
        if session.expected_end is not None and max(session.expected_end, NOW) <= start:
            rooms[session.seat.node].give_back(session.seat)
    for placed in made.placed:
        if placed.session.request.time_limit is None or NOW + placed.session.request.time_limit > start:
            rooms[placed.seat.node].take(placed.seat)
    assert isinstance(fit(made.promise.session.request, rooms[node]), Seat)
