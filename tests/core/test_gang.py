"""Gangs: sessions that start together or not at all."""
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.admit import check_fit_together
from gpufairy.core.errors import NeverFits
from gpufairy.core.plan import plan
from scenes import NOW, a_cluster, a_node, a_session, names, seated

HOUR = timedelta(hours=1)


def a_gang(size: int, gpus: str = "1", **fields: object):
    return [a_session(f"gang-{n}", gpus, gang="g", gang_size=size, **fields) for n in range(size)]


def with_gang(nodes, gang, others=(), holding=()):
    return a_cluster(nodes, [*gang, *others], holding, gangs={"g": tuple(gang)})


def test_all_of_a_gang_start_in_one_pass():
    made = plan(with_gang([a_node("one", gpus=2), a_node("two", gpus=2)], a_gang(4)), NOW)
    assert sorted(names(made)) == ["gang-0", "gang-1", "gang-2", "gang-3"]
    assert Counter(placed.seat.node for placed in made.placed) == {"one": 2, "two": 2}


def test_none_of_a_gang_starts_where_one_would_not_fit():
    made = plan(with_gang([a_node("one", gpus=2), a_node("two", gpus=1)], a_gang(4)), NOW)
    assert made.placed == ()
    assert "3 of the 4 that start together would fit" in made.refusals_of(a_gang(4)[0])[0].why


def test_what_a_gang_could_not_use_goes_to_the_next_that_is_short_enough():
    nodes = [a_node("one", gpus=2)]
    running = seated([a_session("old", "1", time_limit=HOUR)], nodes)
    others = [a_session("short", "1", time_limit=timedelta(minutes=20)), a_session("endless", "1")]
    assert names(plan(with_gang(nodes, a_gang(2), others, running), NOW)) == ["short"]


def test_a_gang_is_promised_the_time_when_all_of_it_fits():
    nodes = [a_node("one", gpus=1), a_node("two", gpus=1)]
    running = seated([a_session("soon", "1", time_limit=HOUR), a_session("late", "1", time_limit=2 * HOUR)], nodes)
    promise = plan(with_gang(nodes, a_gang(2), (), running), NOW).promise
    assert promise.start == NOW + timedelta(minutes=115)
    assert set(promise.spares) == {"one", "two"}


def test_a_gang_behind_endless_sessions_has_its_nodes_kept():
    nodes = [a_node("one", gpus=1), a_node("two", gpus=1)]
    running = seated([a_session("endless", "1", owner="cat")], nodes)
    assert names(plan(with_gang(nodes, a_gang(2), [a_session("another-endless", "1")], running), NOW)) == []


def test_a_gang_that_no_number_of_empty_nodes_could_hold_is_refused_at_the_door():
    with pytest.raises(NeverFits, match="hold 3 of these at once, 4 asked"):
        check_fit_together(a_session(gpus="1").request, 4, [a_node("one", gpus=2), a_node("two", gpus=1)])
    check_fit_together(a_session(gpus="1").request, 3, [a_node("one", gpus=2), a_node("two", gpus=1)])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(2, 4), min_size=1, max_size=4), st.lists(st.integers(0, 4), min_size=1, max_size=4), st.sampled_from(["1", "2", "0.5"]))
def test_of_every_gang_all_or_none_start(sizes, gpus, asked):
    gangs = {
        f"g{number}": tuple(a_session(gpus=asked, owner=f"u{number}", gang=f"g{number}", gang_size=size) for _ in range(size))
        for number, size in enumerate(sizes)
    }
    nodes = [a_node(f"n{number}", gpus=count) for number, count in enumerate(gpus)]
    made = plan(a_cluster(nodes, [one for gang in gangs.values() for one in gang], gangs=gangs), NOW)
    started = Counter(placed.session.request.gang for placed in made.placed)
    assert all(started[gang] in (0, len(members)) for gang, members in gangs.items())
    assert len({placed.session.id for placed in made.placed}) == len(made.placed)
