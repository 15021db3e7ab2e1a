"""Active, idle, or nobody knows: over a window."""
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.active import ActivityWindow


def watched(*readings: float | None, every_s: float = 1.0, window_s: float = 10.0) -> ActivityWindow:
    window = ActivityWindow(window_s)
    for number, reading in enumerate(readings):
        window.note("p", number * every_s, reading)
    return window


def test_one_use_within_the_window_is_active_and_says_how_much_and_when():
    activity = watched(0.0, 0.85, *[0.0] * 5).of("p", 6.0)
    assert (activity.active, activity.why, activity.since_s) == (True, "85% in use 5 s ago", 1.0)


def test_a_whole_window_without_use_is_idle_since_the_last_use():
    activity = watched(0.5, *[0.0] * 15).of("p", 15.0)
    assert (activity.active, activity.why, activity.since_s) == (False, "under 1% in use for 15 s", 0.0)


def test_one_percent_is_use_and_less_is_not():
    assert watched(*[0.01] * 12).of("p", 11.0).active is True
    assert watched(*[0.009] * 12).of("p", 11.0).active is False


def test_a_short_history_is_not_idle():
    activity = watched(0.0, 0.0, 0.0).of("p", 2.0)
    assert (activity.active, activity.since_s) == (None, None)
    assert "it takes 10 s to tell" in activity.why


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_a_reading_missing_within_the_window_is_not_idle(missing):
    readings = [0.0] * 20
    readings[15] = missing
    assert watched(*readings).of("p", 19.0).active is None
    assert watched(*readings, *[0.0] * 8).of("p", 27.0).active is False, "a window later all of it is known again"


def test_what_cannot_be_read_is_never_idle_however_long():
    activity = watched(*[None] * 100).of("p", 99.0)
    assert (activity.active, activity.why) == (None, "its use cannot be read")


def test_silence_is_not_idle_neither_at_the_end_nor_in_between():
    window = watched(*[0.0] * 20)
    assert window.of("p", 40.0).why == "not read for 21 s"
    window.note("p", 40.0, 0.0)
    assert window.of("p", 41.0).active is None, "nobody knows what happened in the 21 s"


def test_use_counts_although_readings_are_missing_beside_it():
    assert watched(None, 0.3, None).of("p", 2.0).active is True


def test_active_since_outlasts_pauses_shorter_than_the_window():
    assert watched(0.5, *[0.0] * 8, 0.5).of("p", 9.0).since_s == 0.0
    assert watched(0.5, *[0.0] * 12, 0.5).of("p", 13.0).since_s == 13.0


def test_an_older_reading_changes_nothing():
    window = watched(*[0.0] * 20)
    window.note("p", 3.0, 1.0)
    assert window.of("p", 19.0).active is False


def test_a_pid_that_comes_again_is_another():
    window = ActivityWindow(10.0)
    for second in range(20):
        window.note((7, 100, "GPU-0"), second, 0.0)
    assert window.of((7, 200, "GPU-0"), 19.0).active is None


def test_those_gone_are_forgotten():
    window = watched(0.5)
    window.note("q", 50.0, 0.5)
    window.forget(10.0)
    assert len(window) == 1
    assert window.of("p", 1.0).why == "never read"


@given(st.lists(st.tuples(st.floats(0.1, 20.0), st.sampled_from([None, 0.0, 0.004, 0.01, 0.9])), min_size=1, max_size=60), st.floats(0.0, 20.0))
def test_agrees_with_looking_at_all_readings(steps, after_s):
    window, readings, at_s = ActivityWindow(30.0), [], 0.0
    for step_s, reading in steps:
        at_s += step_s
        readings.append((at_s, reading))
        window.note("p", at_s, reading)
    now_s = at_s + after_s
    within = [(when, value) for when, value in readings if now_s - when <= 30.0]
    activity = window.of("p", now_s)
    if any(value is not None and value >= 0.01 for _, value in within):
        assert activity.active is True
        return
    if activity.active is False:
        before = [when for when, _ in readings if now_s - when >= 30.0]
        assert before, "it was watched for the whole window"
        times = [before[-1], *(when for when, _ in within), now_s]
        assert all(later - earlier <= 15.0 for earlier, later in itertools.pairwise(times))
        assert all(value is not None for _, value in within)
    else:
        assert activity.active is None


def test_the_window_is_a_minute_and_a_silence_of_a_quarter_of_it_is_too_long():
    window = ActivityWindow()
    for second in range(0, 61, 15):
        window.note("p", float(second), 0.0)
    assert window.of("p", 59.9).active is None
    assert window.of("p", 60.0).active is False
    assert window.of("p", 75.0).active is False
    assert window.of("p", 75.1).why == "not read for 15 s"


def test_a_gap_between_two_readings_counts_from_a_quarter_of_a_minute():
    for gap_s, active in ((15.0, False), (15.5, None)):
        window = ActivityWindow()
        for step in range(5):
            window.note("p", step * gap_s, 0.0)
        assert window.of("p", 4 * gap_s).active is active


def test_a_use_counts_to_the_very_end_of_the_window():
    window = watched(0.5, *[0.0] * 10)
    assert window.of("p", 10.0).active is True
    assert window.of("p", 10.1).active is False


def test_a_pause_as_long_as_the_window_is_still_one_stretch_of_use():
    assert watched(0.5, *[0.0] * 9, 0.5).of("p", 10.0).since_s == 0.0
    assert watched(0.5, *[0.0] * 10, 0.5).of("p", 11.0).since_s == 11.0


def test_idle_counts_from_when_all_was_known_where_that_is_later_than_the_last_use():
    readings = [0.5, 0.0, None, *[0.0] * 12]
    assert watched(*readings).of("p", 14.0).since_s == 3.0
    assert watched(*[0.0] * 12).of("p", 11.0).since_s == 0.0


def test_what_was_read_for_a_short_while_says_for_how_long():
    assert watched(0.0, 0.0, 0.0).of("p", 2.0).why == "read for 2 s; it takes 10 s to tell"
    assert watched(0.0, 0.0, 0.0).of("p", -5.0).why == "read for 0 s; it takes 10 s to tell"


def test_a_use_that_is_to_come_by_the_clock_is_told_as_now():
    assert watched(0.0, 0.0, 0.5).of("p", 1.0).why == "50% in use 0 s ago"


def test_the_newest_use_is_the_one_that_is_told():
    assert watched(0.9, 0.2, 0.0).of("p", 2.0).why == "20% in use 1 s ago"


def test_a_second_reading_of_the_same_time_counts():
    window = watched(0.0, 0.0)
    window.note("p", 1.0, 0.7)
    assert window.of("p", 1.0).active is True


def test_one_that_was_read_just_when_others_are_forgotten_stays():
    window = watched(0.5)
    window.forget(0.0)
    assert len(window) == 1
