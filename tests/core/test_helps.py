"""What would help: tried in the room there is, the least change first; and why a start is forecast for then."""
from dataclasses import replace
from datetime import timedelta

from gpufairy.core.booking import Booking, Calendar
from gpufairy.core.explain import MOST_REFUSALS, explain, outlook
from gpufairy.core.helps import duration_option
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plan import plan
from gpufairy.core.quota import Quota
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import IdleStep, Outcome
from gpufairy.core.share import PARTS
from scenes import NOW, a_cluster, a_gpu, a_node, a_session, names, seated

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def told(cluster, session, **how):
    return explain(session, outlook(cluster, plan(cluster, NOW), NOW, 100), [], NOW, **how)


def busy(gpus=2, taken="1", waiting=(), **fields):
    """One node, of which so many GPUs are taken for 55 minutes more."""
    nodes = [a_node(gpus=gpus)]
    return a_cluster(nodes, waiting, seated([a_session("old", taken, owner="bob", time_limit=HOUR)], nodes), **fields)


def runs_of(minutes, owner="bob", image=None):
    known = RunTimes()
    for length in minutes:
        run = a_session(owner=owner, image=image, phase=Phase.ENDED, outcome=Outcome.DONE, ended_at=NOW, started_at=NOW - length * MINUTE)
        known.ended(run)
    return known


def test_a_smaller_share_that_would_start_now_is_told():
    waiting = a_session("big", "2")
    assert told(busy(waiting=[waiting]), waiting).helps == ("With --gpus 1 it would start now.",)
    assert told(busy(taken="2", waiting=[waiting]), waiting).helps == ()


def test_whoever_asks_for_less_gives_up_its_own_promise():
    first, second = a_session("first", "2"), a_session("second", "1")
    cluster = busy(waiting=[first, second])
    assert told(cluster, first).helps == ("With --gpus 1 it would start now.",)
    assert "With --gpus" not in " ".join(told(cluster, second).helps)  # there the room is kept for the first


def test_a_limit_with_which_it_would_pass_is_told_and_works():
    first, second = a_session("first", "2"), a_session("second", "1", owner="cy")
    cluster = busy(waiting=[first, second])
    assert told(cluster, second).helps[0] == "With --time 55m it would start now."
    passing = a_session("second", "1", owner="cy", time_limit=55 * MINUTE)
    assert names(plan(busy(waiting=[first, passing]), NOW)) == ["second"]


def test_no_limit_is_advised_that_its_own_past_runs_would_break():
    first, second = a_session("first", "2"), a_session("second", "1", owner="cy")
    cluster = busy(waiting=[first, second], run_times=runs_of([200] * 6, owner="cy"))
    wait = told(cluster, second)
    assert not any("--time" in way for way in wait.helps)
    assert wait.own_time == "without --time it is taken to run 3 h 20 min, and up to 3 h 20 min, as your last 6 runs without an image did"


def test_another_kind_that_is_free_is_told():
    nodes = [a_node(gpus=1), replace(a_node("gpu02"), gpus=(a_gpu(0, "gpu02", kind="H200"),))]
    running = seated([a_session("old", "1", gpu_kind="A100", time_limit=HOUR)], nodes)
    waiting = a_session("next", "1", gpu_kind="A100")
    assert told(a_cluster(nodes, [waiting], running), waiting).helps[0] == "On H200 it would start now: leave out --gpu-kind."


def test_a_guests_place_is_told_where_somebody_lends():
    nodes = [a_node(gpus=1)]
    (idle,) = seated([a_session("old", "1", owner="bob")], nodes)
    idle = replace(idle, idle_step=IdleStep.LENT)
    waiting = a_session("next", "1")
    helps = told(a_cluster(nodes, [waiting], [idle]), waiting).helps
    assert helps[0].startswith("With --preemptible it would start now")


def test_fewer_together_are_told():
    gang = [a_session(f"w-{n}", "1", gang="g", gang_size=3) for n in range(3)]
    nodes = [a_node(gpus=3)]
    running = seated([a_session("old", "1", time_limit=HOUR)], nodes)
    cluster = a_cluster(nodes, gang, running, gangs={"g": tuple(gang)})
    wait = told(cluster, gang[0])
    assert wait.helps == ("2 of the 3 that start together would start now: ask for --count 2.",)
    assert wait.forecast_start == NOW + 55 * MINUTE


def test_who_has_to_leave_is_told_by_owner_and_to_those_who_may_know_by_name():
    waiting = a_session("big", "2")
    cluster = busy(waiting=[waiting])
    assert told(cluster, waiting).forecast_why == "2 GPUs of kind A100-40GB come free on gpu01 when a session of bob ends"
    to_admins = told(cluster, waiting, shown=lambda _: True).forecast_why
    assert to_admins == "2 GPUs of kind A100-40GB come free on gpu01 when bob's old ends"


def test_who_is_ahead_in_line_is_told():
    first, second = a_session("first", "2", owner="cy", time_limit=HOUR), a_session("second", "2")
    wait = told(busy(waiting=[first, second]), second)
    assert wait.forecast_why.endswith("when a session of cy, which is ahead of it in line, ends, after sessions of bob")
    assert wait.forecast_start == NOW + 115 * MINUTE


def test_past_runs_give_a_time_and_a_range_where_there_is_no_limit():
    nodes = [a_node(gpus=1)]
    running = seated([a_session("old", "1", owner="bob")], nodes)
    waiting = a_session("next", "1")
    wait = told(a_cluster(nodes, [waiting], running, run_times=runs_of(range(10, 120, 10))), waiting)
    assert NOW <= wait.forecast_low < wait.forecast_start < wait.forecast_high
    assert NOW + 40 * MINUTE < wait.forecast_start < NOW + 70 * MINUTE


def test_somebody_who_has_outrun_all_past_runs_makes_the_forecast_unknown():
    nodes = [a_node(gpus=1)]
    running = seated([a_session("old", "1", owner="bob")], nodes)
    waiting = a_session("next", "1")
    wait = told(a_cluster(nodes, [waiting], running, run_times=runs_of([1] * 6)), waiting)
    assert wait.forecast_start is None
    assert wait.forecast_why == "not known: it waits for sessions without a time limit of bob, of which past runs tell nothing"


def test_a_quota_that_it_waits_for_is_told_with_when_it_frees():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("mine", "1", time_limit=HOUR)], nodes)
    waiting = a_session("more", "1")
    wait = told(a_cluster(nodes, [waiting], running, quotas=(Quota("user:ann", gpu_parts=PARTS),)), waiting)
    assert wait.forecast_start == NOW + 55 * MINUTE
    assert "quota" in wait.forecast_why
    assert any("--preemptible" in way for way in wait.helps)  # what nobody entitled uses is under no quota


def test_a_quota_that_nothing_frees_is_told_as_unknown():
    nodes = [a_node(gpus=2)]
    running = seated([a_session("mine", "1")], nodes)
    waiting = a_session("more", "1")
    wait = told(a_cluster(nodes, [waiting], running, quotas=(Quota("user:ann", gpu_parts=PARTS),)), waiting)
    assert (wait.forecast_start, wait.forecast_why[:9]) == (None, "not known")


def test_the_end_of_a_booking_is_forecast():
    nodes = [a_node(gpus=1)]
    booking = Booking("b1", "class", "root", ("team:class",), (nodes[0].gpus[0].uuid,), NOW - HOUR, NOW + HOUR, NOW - HOUR)
    waiting = a_session("next", "1")
    wait = told(a_cluster(nodes, [waiting], calendar=Calendar.of([booking], [], NOW)), waiting)
    assert wait.forecast_start == NOW + HOUR


def test_of_many_nodes_some_are_named_and_the_rest_counted():
    nodes = [a_node(f"n{number:03}", gpus=1) for number in range(60)]
    running = seated([a_session(time_limit=HOUR) for _ in nodes], nodes)
    wait = told(a_cluster(nodes, [waiting := a_session("next", "1")], running), waiting)
    assert len(wait.refusals) <= MOST_REFUSALS
    assert sum(refusal.nodes for refusal in wait.refusals) + wait.more_nodes == 60


def test_limits_are_written_as_the_option_takes_them():
    assert [duration_option(time) for time in (50 * MINUTE, 2 * HOUR, 90 * MINUTE, 26 * HOUR)] == ["50m", "2h", "1h30m", "1d2h"]
