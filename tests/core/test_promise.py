"""Promise: what is kept for the first in line, and who may pass it."""
from dataclasses import replace
from datetime import timedelta

from gpufairy.core.explain import explain, outlook
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plan import plan
from gpufairy.core.session import Wanted
from gpufairy.core.timeline import NEVER, OVERDUE, SHORT, end_of
from scenes import NOW, a_cluster, a_node, a_session, names, seated

HOUR = timedelta(hours=1)


def test_the_short_pass_a_promise_whose_time_nobody_knows():
    nodes = [a_node(gpus=8)]
    running = seated([a_session("endless", "1", owner="bob")], nodes)
    waiting = [a_session("all", "8"), a_session("short", "1", time_limit=timedelta(minutes=5)), a_session("an-hour", "6", time_limit=SHORT)]
    waiting += [a_session("long", "1", time_limit=2 * HOUR), a_session("endless-too", "1")]
    made = plan(a_cluster(nodes, waiting, running), NOW)
    assert names(made) == ["short", "an-hour"]
    assert made.promise.start is None


def test_when_the_endless_one_has_left_the_short_delay_the_first_in_line_no_further():
    nodes = [a_node(gpus=8)]
    running = seated([a_session("short", "2", time_limit=HOUR)], nodes)
    waiting = [a_session("all", "8"), a_session("another", "1", time_limit=HOUR)]
    made = plan(a_cluster(nodes, waiting, running), NOW)
    assert names(made) == []
    assert made.promise.start == NOW + timedelta(minutes=55)


def test_nobody_learns_the_name_of_anothers_session():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("old", "1", owner="cy", time_limit=HOUR)], nodes)
    waiting = [a_session("secret-project", "2", owner="ann"), a_session("long", "1", owner="bob", time_limit=5 * HOUR)]
    cluster = a_cluster(nodes, waiting, running)
    made = plan(cluster, NOW)
    told = explain(waiting[1], outlook(cluster, made, NOW, 100), [], NOW)
    assert told.refusals[0].why == "gpu01 has room, kept for the first in line"
    assert "secret-project" not in str((told, made.refusals_of(waiting[1])))


def test_a_smaller_request_is_not_advised_where_room_is_kept_for_another():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("old", "1", time_limit=HOUR)], nodes)
    waiting = [a_session("big", "2"), a_session("next", "1")]
    cluster = a_cluster(nodes, waiting, running)
    assert "would fit now" not in explain(waiting[1], outlook(cluster, plan(cluster, NOW), NOW, 100), [], NOW).next_step


def test_one_that_has_not_started_ends_after_its_limit():
    for phase in (Phase.PLACED, Phase.STARTING):
        assert end_of(a_session(phase=phase, time_limit=2 * HOUR), NOW) == NOW + 2 * HOUR
        assert end_of(a_session(phase=phase), NOW) == NEVER


def test_one_that_is_stopping_ends_now_unless_it_never_seems_to():
    stopping = a_session(phase=Phase.STOPPING, wanted=Wanted.STOP, since=NOW, started_at=NOW - HOUR)
    assert end_of(stopping, NOW + timedelta(seconds=5)) == NOW + timedelta(seconds=5)
    assert end_of(stopping, NOW + 2 * OVERDUE) == NEVER


def test_one_past_its_limit_is_about_to_leave():
    running = a_session(phase=Phase.RUNNING, time_limit=HOUR, started_at=NOW - HOUR - timedelta(seconds=2))
    assert end_of(running, NOW) == NOW
    assert end_of(replace(running, started_at=NOW - 2 * HOUR), NOW) == NEVER


def test_all_who_leave_at_the_same_time_leave_room_beside_the_promise():
    nodes = [a_node(gpus=3)]
    running = seated([a_session("one", "1", time_limit=HOUR), a_session("two", "1", time_limit=HOUR)], nodes)
    waiting = [a_session("big", "2"), a_session("endless", "1"), a_session("too-many", "1")]
    assert names(plan(a_cluster(nodes, waiting, running), NOW)) == ["endless"]
