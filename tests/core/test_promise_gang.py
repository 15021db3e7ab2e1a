"""Gangs: the walk from moment to moment finds the first at which all of them fit, as a look at every node at every time would."""
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.booking import OPEN
from gpufairy.core.fit import seats_together
from gpufairy.core.floor import Floor
from gpufairy.core.plan import plan
from gpufairy.core.promise_gang import together
from gpufairy.core.room import rooms
from gpufairy.core.timeline import NEVER, timelines
from scenes import NOW, a_cluster, a_node, a_session, seated

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5)
HELD = st.lists(st.tuples(st.sampled_from(["1", "2", "0.5"]), st.sampled_from([None, 10, 20, 60, 61])), max_size=12)


def first_by_looking_everywhere(requests, nodes, holding):
    lines = timelines(rooms(nodes, holding), holding, NOW)
    for when in sorted({moment.when for line in lines for moment in line.moments}):
        there = {line.node: line.moments[line.last_at(when)].room.copy() for line in lines}
        if seats_together(requests, there) is not None:
            return when
    return None


@settings(max_examples=150, deadline=None)
@given(SIZES, HELD, st.sampled_from(["1", "2", "0.5"]), st.integers(2, 6))
def test_a_gang_is_promised_the_first_moment_at_which_all_of_it_fits(sizes, held, gpus, size):
    nodes = tuple(a_node(f"n{place}", gpus=count) for place, count in enumerate(sizes))
    coming = [a_session(gpus=share, time_limit=limit and timedelta(minutes=limit)) for share, limit in held]
    placed = {one.session.id for one in plan(a_cluster(nodes, coming), NOW).placed}
    holding = seated([one for one in coming if one.id in placed], nodes)
    requests, floor = [a_session(gpus=gpus).request for _ in range(size)], Floor()
    floor.follow(nodes, holding)
    cluster = a_cluster(nodes)
    hopes = list(floor.hopes(requests[0], NOW, cluster.run_times, cluster.calendar))
    lines = {line.node: line for line in timelines(floor.rooms, holding, NOW)}
    found = together(requests, [(hope, lines[hope.room.node.name]) for hope in hopes], lambda _: OPEN)
    assert (found and found[0]) == first_by_looking_everywhere(requests, nodes, holding)


def test_a_gang_that_waits_for_the_endless_has_no_time():
    nodes = (a_node(gpus=2),)
    holding = seated([a_session(gpus="2")], nodes)
    floor, request = Floor(), a_session(gpus="1").request
    floor.follow(nodes, holding)
    cluster = a_cluster(nodes)
    (hope,) = floor.hopes(request, NOW, cluster.run_times, cluster.calendar)
    found = together([request] * 2, [(hope, timelines(floor.rooms, holding, NOW)[0])], lambda _: OPEN)
    assert found[0] == NEVER
    assert (hope.when, hope.gone) == (NEVER, 1)
