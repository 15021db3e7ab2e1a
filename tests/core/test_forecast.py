"""Forecast: it agrees with what planning does, and gives no two the same seat."""
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.course import Course, Ground
from gpufairy.core.explain import explain, outlook
from gpufairy.core.fit import fit
from gpufairy.core.forecast import DEEPEST
from gpufairy.core.plan import plan
from gpufairy.core.room import Room
from gpufairy.core.session import Seat
from gpufairy.core.share import PARTS
from scenes import NOW, a_cluster, a_node, a_session, names, seated

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)


def forecasts(nodes, waiting, running=()):
    """By name, in hours from now."""
    cluster = a_cluster(nodes, waiting, running)
    view = outlook(cluster, plan(cluster, NOW), NOW, 100)
    starts = {session.name: view.starts[session.id].typical for session in waiting}
    return {name: None if start is None else (start - NOW) / HOUR for name, start in starts.items()}


def test_one_that_is_kept_out_by_a_promise_is_not_forecast_for_now():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("old", "1", time_limit=10 * HOUR)], nodes, minutes_ago=0)
    waiting = [a_session("x", "2", time_limit=3 * HOUR), a_session("y", "1", time_limit=timedelta(days=5))]
    assert names(plan(a_cluster(nodes, waiting, running), NOW)) == []
    assert forecasts(nodes, waiting, running) == {"x": 10, "y": 13}


def test_one_that_ends_in_time_is_forecast_before_the_promise():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("old", "1", time_limit=10 * HOUR)], nodes, minutes_ago=0)
    waiting = [a_session("x", "2"), a_session("y", "1", time_limit=4 * HOUR), a_session("z", "1", time_limit=6 * HOUR)]
    assert forecasts(nodes, waiting, running) == {"x": 10, "y": 0, "z": 4}


def test_behind_a_promise_whose_time_nobody_knows_the_short_alone_are_forecast():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("endless", "1")], nodes)
    waiting = [a_session("x", "2"), a_session("long", "1", time_limit=5 * HOUR), a_session("short", "1", time_limit=HOUR)]
    assert forecasts(nodes, waiting, running) == {"x": None, "long": None, "short": 0}


def test_beside_several_without_a_limit_only_what_the_promise_leaves_is_forecast():
    nodes = [a_node(gpus=4)]
    running = seated([a_session("endless", "1"), a_session("endless-too", "1")], nodes)
    waiting = [a_session("x", "3"), a_session("long", "1", time_limit=5 * HOUR)]
    assert names(plan(a_cluster(nodes, waiting, running), NOW)) == []
    assert forecasts(nodes, waiting, running) == {"x": None, "long": None}


def test_further_back_than_is_forecast_they_are_told_so():
    nodes = [a_node(gpus=1)]
    waiting = [a_session(time_limit=HOUR) for _ in range(DEEPEST + 1)]
    cluster = a_cluster(nodes, waiting, seated([a_session("old", time_limit=HOUR)], nodes))
    view = outlook(cluster, plan(cluster, NOW), NOW, 2 * DEEPEST)
    last_told, not_told = (explain(session, view, [], NOW) for session in waiting[-2:])
    assert last_told.forecast_start == NOW + timedelta(minutes=55) + (DEEPEST - 1) * HOUR
    assert (not_told.forecast_start, not_told.forecast_why) == (None, f"not forecast beyond place {DEEPEST}")


def test_a_long_line_is_forecast_in_little_time():
    """Ten times what it takes, so that a busy machine does not fail it."""
    for gpus, limit_s in ((8, 1.0), (64, 2.0)):
        nodes = [a_node(gpus=gpus, cpus=1000, memory_gib=8000)]
        running = seated([a_session(time_limit=timedelta(hours=10, minutes=n)) for n in range(gpus)], nodes)
        waiting = [a_session(gpus=("1", "2", "0.5")[n % 3], owner=f"user{n % 20}", time_limit=timedelta(minutes=30 + n)) for n in range(2500)]
        cluster = a_cluster(nodes, waiting, running)
        made = plan(cluster, NOW)
        began_s = time.perf_counter()
        outlook(cluster, made, NOW, 2000)
        assert time.perf_counter() - began_s < limit_s


SHARES = st.sampled_from(["0", "1", "2", "3", "0.5", "0.25", "mig:1g.5gb", "mig:3g.20gb"])
SESSIONS = st.builds(
    lambda gpus, cpus, limit: a_session(gpus=gpus, cpus_milli=cpus, memory_bytes=None, time_limit=limit and timedelta(minutes=limit)),
    SHARES, st.sampled_from([None, 500, 4000]), st.sampled_from([None, 30, 60, 90, 300]),
)  # fmt: skip
NODES = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3).map(
    lambda shapes: [a_node(f"n{i}", gpus=gpus, mig=mig) for i, (gpus, mig) in enumerate(shapes)]
)


def filled(nodes, sessions):
    """Placed until nothing more starts: who holds seats now, and who waits."""
    holding, waiting = [], [s for s in sessions if any(isinstance(fit(s.request, Room.empty(node)), Seat) for node in nodes)]
    while (made := plan(a_cluster(nodes, waiting, holding), NOW)).placed:
        holding += [replace(p.session, seat=p.seat, placed_at=NOW, started_at=NOW) for p in made.placed]
        waiting = [s for s in waiting if s.id not in {h.id for h in holding}]
    return holding, waiting


@settings(max_examples=150, deadline=None)
@given(NODES, st.lists(SESSIONS, max_size=30))
def test_nobody_whom_planning_leaves_waiting_is_forecast_for_now(nodes, sessions):
    holding, waiting = filled(nodes, sessions)
    cluster = a_cluster(nodes, waiting, holding)
    view = outlook(cluster, plan(cluster, NOW), NOW, 100)
    assert NOW not in {start.typical for start in view.starts.values()}


@settings(max_examples=150, deadline=None)
@given(NODES, st.lists(SESSIONS, max_size=30))
def test_no_forecast_gives_two_the_same_seat(nodes, sessions):
    holding, waiting = filled(nodes, sessions)
    cluster = a_cluster(nodes, waiting, holding)
    course = Course(Ground(cluster, cluster.rooms(), NOW), 0)
    for session in waiting:
        course.seat([session], patient=False)
    for moment in (moment for line in course._lines.values() for moment in line.moments):
        assert moment.room.cpus_milli >= 0
        assert moment.room.memory_bytes >= 0
        for gpu in moment.room.gpus:
            assert 0 <= gpu.free_parts <= PARTS
            cut = [slice_ for start, size in gpu.cut for slice_ in range(start, start + size)]
            assert len(cut) == len(set(cut))
