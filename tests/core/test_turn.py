"""Turn: who has had least goes first, whatever was refused to them, and nobody's queue hides another's."""
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.cluster import Policy, Weights
from gpufairy.core.ledger import Usage
from gpufairy.core.plan import plan
from gpufairy.core.share import PARTS
from gpufairy.core.turn import counts_at_once, in_order, standings
from scenes import GIB, NOW, a_cluster, a_node, a_session, names, seated

HOUR = timedelta(hours=1)


def test_a_refusal_does_not_put_who_has_had_least_behind_who_has_had_most():
    nodes = [a_node(gpus=8)]
    running = seated([a_session("old", "6", owner="cy", time_limit=2 * HOUR)], nodes)
    waiting = [a_session("too-big", "4", owner="light"), a_session("small", owner="light", time_limit=HOUR)]
    waiting += [a_session(f"heavy-{n}", owner="heavy", time_limit=HOUR) for n in range(4)]
    usage = {"heavy": Usage(1000 * 3600.0, NOW - HOUR)}
    assert names(plan(a_cluster(nodes, waiting, running, usage=usage), NOW)) == ["small", "heavy-0"]


def test_a_small_session_starts_behind_hundreds_of_its_owners_that_cannot():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("old", "1", owner="bob", time_limit=2 * HOUR)], nodes)
    waiting = [a_session(f"blocked-{n}", "2") for n in range(500)] + [a_session("small", "1", time_limit=HOUR)]
    assert names(plan(a_cluster(nodes, waiting, running), NOW)) == ["small"]


def test_a_shape_refused_to_one_owner_costs_another_no_look():
    flood = [a_session(f"ann-{n}", "2", memory_bytes=GIB + n) for n in range(10)]
    same = [a_session(f"bob-{n}", "2", owner="bob", memory_bytes=GIB + n) for n in range(10)]
    nodes = [a_node(gpus=2)]
    running = seated([a_session("old", "1", owner="cy", time_limit=2 * HOUR)], nodes)
    waiting = [*flood, *same, *(a_session(f"bob-more-{n}", "2", owner="bob", memory_bytes=2 * GIB + n) for n in range(9))]
    waiting.append(a_session("small", "1", owner="bob", time_limit=HOUR))
    made = plan(a_cluster(nodes, waiting, running, policy=Policy(depth=20)), NOW)
    assert names(made) == ["small"]
    assert len(made.refusals) == 19


@pytest.mark.slow
def test_a_pass_refuses_no_more_shapes_than_its_depth_nor_fewer_than_ten_of_an_owner():
    waiting = [a_session(owner=f"user{n % 50}", memory_bytes=GIB + n) for n in range(5000)]
    for depth, refused in ((1000, 1000), (100, 500)):
        made = plan(a_cluster([a_node(gpus=0, cpus=1), a_node("gpu01", gpus=1)], waiting, policy=Policy(depth=depth)), NOW)
        assert len(made.placed) == 1
        assert len(made.refusals) == refused


def test_seats_use_up_no_looks_so_a_long_queue_that_fits_starts_at_once():
    waiting = [a_session(gpus="0", owner=f"user{n % 50}", memory_bytes=GIB // 1024) for n in range(5000)]
    made = plan(a_cluster([a_node(cpus=2000)], waiting), NOW)
    assert len(made.placed) == 1000  # the depth of a pass
    assert len({p.session.owner for p in made.placed}) == 50


def test_a_place_in_line_counts_an_fgpu_as_the_part_of_a_gpu_it_is():
    node = a_node(gpus=2)
    node = replace(node, gpus=tuple(replace(gpu, fgpu_parts=4 * PARTS) for gpu in node.gpus))  # one fGPU is a quarter
    waiting = [a_session(f"ann-{n}", "1fgpu", owner="ann") for n in range(4)] + [a_session(f"bob-{n}", "0.5", owner="bob") for n in range(2)]
    order = [session.name for session in in_order(a_cluster([node], waiting), NOW, 10)]
    assert order == ["ann-0", "bob-0", "ann-1", "ann-2", "bob-1", "ann-3"]


def test_a_place_in_line_counts_a_session_without_gpu_by_its_cpus():
    waiting = [a_session(f"ann-{n}", "0", owner="ann", cpus_milli=100) for n in range(3)]
    waiting += [a_session(f"bob-{n}", "1", owner="bob") for n in range(2)]
    order = [session.name for session in in_order(a_cluster([a_node(gpus=2)], waiting), NOW, 10)]
    assert order == ["ann-0", "bob-0", "ann-1", "ann-2", "bob-1"]


SESSIONS = st.builds(
    lambda gpus, owner, cpus, priority, hours: a_session(
        gpus=gpus, owner=owner, cpus_milli=cpus, priority=priority, time_limit=hours and timedelta(hours=hours)
    ),
    st.sampled_from(["1", "4", "0.5"]), st.sampled_from(["ann", "bob"]), st.sampled_from([1000, 4000]),
    st.sampled_from([0, 0, 0, 1]), st.sampled_from([1, 1, 3, None]),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 3), st.lists(SESSIONS, max_size=6), st.lists(SESSIONS, max_size=15),
    st.dictionaries(st.sampled_from(["ann", "bob"]), st.sampled_from([0, 100])),
)  # fmt: skip
def test_nobody_waits_while_one_who_has_had_more_gets_a_seat_they_could_have_taken(gpus, earlier, waiting, hours_used):
    nodes = [a_node("gpu01", gpus=4), a_node("gpu02", gpus=gpus)]
    before = plan(a_cluster(nodes, earlier), NOW - HOUR / 2)
    holding = [replace(p.session, seat=p.seat, placed_at=NOW - HOUR / 2, started_at=NOW - HOUR / 2) for p in before.placed]
    cluster = a_cluster(nodes, waiting, holding, usage={owner: Usage(hours * 3600.0, NOW) for owner, hours in hours_used.items()})
    made = plan(cluster, NOW)
    had = defaultdict(float, standings(cluster, NOW))
    started = {p.session.id for p in made.placed}
    for placed in made.placed:
        for left in waiting:
            if left.id not in started and left.owner != placed.session.owner and could_take_the_seat_of(left, placed.session):
                assert had[left.owner] >= had[placed.session.owner], (left, placed)
        had[placed.session.owner] += counts_at_once(placed.seat.charge_parts, cluster.policy)


def could_take_the_seat_of(one, other):
    """It asks for no more of anything, for no longer, with no less right."""
    mine, theirs = one.request, other.request
    return (
        one.priority >= other.priority and mine.share == theirs.share and mine.cpus_milli <= theirs.cpus_milli
        and (theirs.time_limit is None or (mine.time_limit is not None and mine.time_limit <= theirs.time_limit))
    )  # fmt: skip


def test_an_owners_share_moves_their_turn():
    waiting = [a_session(f"{owner}-{n}", owner=owner) for owner in ("ann", "bob") for n in range(4)]
    order = in_order(a_cluster([a_node(gpus=8)], waiting, weights=Weights(users={"bob": 2.5})), NOW, 6)
    assert [session.owner for session in order] == ["ann", "bob", "bob", "bob", "ann", "bob"]


def test_a_newcomer_goes_before_who_has_used_much_and_not_for_ever():
    usage = {"old": Usage(2.5 * 86400.0, NOW)}
    waiting = [a_session(f"{owner}-{n}", owner=owner) for owner in ("old", "new") for n in range(9)]
    order = [session.owner for session in in_order(a_cluster([a_node(gpus=16)], waiting, usage=usage), NOW, 18)]
    assert order[:4] == ["new"] * 4
    assert "old" in order[4:10]
