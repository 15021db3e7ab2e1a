"""Run times: what past runs tell of the next, and of those that already run."""
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.lifecycle import Phase
from gpufairy.core.run_time import FEWEST, KEPT, MOST_KEYS, RunTimes, stay_of, telling_run
from gpufairy.core.session import IdleStep, Outcome
from gpufairy.core.timeline import NEVER, end_of
from scenes import NOW, a_session

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def a_run(time=HOUR, outcome=Outcome.DONE, owner="ann", image="pytorch:2.7", **fields):
    made = a_session(owner=owner, image=image, phase=Phase.ENDED, outcome=outcome, started_at=NOW - time, ended_at=NOW, **fields)
    return replace(made, placed_at=NOW - time)


def learnt(*runs):
    known = RunTimes()
    for run in runs:
        known.ended(run)
    return known


def running(for_time, **fields):
    return a_session(**{"image": "pytorch:2.7", "phase": Phase.RUNNING, "started_at": NOW - for_time, **fields})


def test_nothing_is_told_of_too_few_runs():
    assert learnt(*[a_run()] * (FEWEST - 1)).of("ann", "pytorch:2.7") is None
    assert learnt(*[a_run()] * FEWEST).of("ann", "pytorch:2.7").typical == HOUR


def test_the_spread_of_past_runs_is_told():
    told = learnt(*(a_run(n * MINUTE) for n in range(1, 22))).of("ann", "pytorch:2.7")
    assert (told.low, told.typical, told.high) == (3 * MINUTE, 11 * MINUTE, 20 * MINUTE)
    assert (told.runs, told.of) == (21, "your last 21 runs of pytorch:2.7")


def test_the_same_image_tells_more_than_the_same_owner_and_that_more_than_others_with_the_image():
    hers = [a_run(2 * HOUR, image="jax:1")] * 6
    others = [a_run(5 * HOUR, owner="bob")] * 6
    assert learnt(*[a_run()] * 5, *hers, *others).of("ann", "pytorch:2.7").typical == HOUR
    by_owner = learnt(a_run(), *hers, *others).of("ann", "pytorch:2.7")
    assert (by_owner.typical, by_owner.of) == (2 * HOUR, "your last 7 runs")
    by_image = learnt(*others).of("ann", "pytorch:2.7")
    assert (by_image.typical, by_image.of) == (5 * HOUR, "the last 6 runs of pytorch:2.7 by anybody")
    assert learnt(*others).of("ann", "jax:1") is None


def test_only_ends_that_tell_something_are_learnt_from():
    for outcome in (Outcome.LOST, Outcome.EVICTED):
        assert telling_run(a_run(outcome=outcome)) is None
    for outcome in (Outcome.DONE, Outcome.FAILED, Outcome.STOPPED, Outcome.EXPIRED):
        assert telling_run(a_run(outcome=outcome)) == HOUR
    assert telling_run(a_run(timedelta(seconds=10), Outcome.STOPPED)) is None
    assert telling_run(a_run(idle_step=IdleStep.STOPPED, outcome=Outcome.STOPPED)) is None
    assert telling_run(replace(a_run(), started_at=None)) == HOUR  # over before it was seen to run
    assert telling_run(replace(a_run(outcome=Outcome.FAILED), started_at=None)) is None  # it never ran
    assert telling_run(replace(a_run(), ended_at=NOW - 2 * HOUR)) is None  # a clock that ran back


def test_old_runs_and_old_owners_are_forgotten():
    known = learnt(*[a_run()] * KEPT, *[a_run(2 * HOUR)] * KEPT)
    assert known.of("ann", "pytorch:2.7").low == 2 * HOUR
    for number in range(MOST_KEYS):
        known.ended(a_run(owner=f"user{number}", image=None))
    assert known.of("ann", "pytorch:2.7") is None
    assert len(known._runs) == MOST_KEYS


def test_how_long_still_is_told_by_the_runs_that_were_longer():
    known = learnt(*[a_run(10 * MINUTE)] * 10, *[a_run(2 * HOUR)] * 5)
    assert known.left(running(MINUTE), NOW).typical == 9 * MINUTE
    assert known.left(running(30 * MINUTE), NOW).typical == 90 * MINUTE


def test_one_that_has_outrun_all_past_ones_is_unknown_and_never_due():
    known = learnt(*[a_run()] * 10)
    assert known.left(running(HOUR), NOW) is None
    assert known.drawn(running(2 * HOUR), NOW, 0.5) is None
    assert end_of(running(2 * HOUR), NOW, known) == NEVER
    assert end_of(running(MINUTE), NOW, known) == NOW + 59 * MINUTE


def test_a_limit_is_kept_whatever_past_runs_tell():
    known = learnt(*[a_run(5 * HOUR)] * 10)
    assert known.drawn(a_session(image="pytorch:2.7", time_limit=HOUR), NOW, 0.5) == HOUR
    assert known.drawn(running(2 * HOUR, time_limit=8 * HOUR), NOW, 0.5) == 3 * HOUR
    assert known.drawn(running(6 * HOUR, time_limit=8 * HOUR), NOW, 0.5) == 2 * HOUR
    assert stay_of(a_session(image="pytorch:2.7", time_limit=HOUR), known).sure
    assert not stay_of(a_session(image="pytorch:2.7"), known).sure


def test_what_others_use_of_their_limits_is_told_of_one_without_a_past():
    known = learnt(*[a_run(HOUR, owner=f"user{n}", image=f"image{n}", time_limit=4 * HOUR) for n in range(6)])
    assert known.drawn(a_session(owner="new", image="new", time_limit=8 * HOUR), NOW, 0.5) == 2 * HOUR
    assert known.drawn(a_session(owner="new", image="new"), NOW, 0.5) is None


TIMES = st.integers(0, 5000).map(lambda minutes: minutes * MINUTE)


@given(st.lists(TIMES, max_size=2 * KEPT), TIMES, st.none() | TIMES.filter(bool), st.sampled_from([0.05, 0.5, 0.95]))
def test_no_run_time_is_negative_or_over_the_limit(runs, ran, limit, level):
    known = learnt(*map(a_run, runs))
    session = running(ran, time_limit=limit)
    drawn, left = known.drawn(session, NOW, level), known.left(session, NOW)
    assert drawn is None or timedelta() <= drawn <= (limit or max(runs))
    assert left is None or timedelta() < left.low <= left.typical <= left.high
    if limit is None:
        assert (drawn is None) == (left is None)
    if limit is None and len(runs) >= FEWEST and ran >= max(runs[-KEPT:]):
        assert left is None
