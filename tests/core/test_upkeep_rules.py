"""How long things are kept, when the nightly clean-up comes, and which tools nobody needs."""
from datetime import UTC, datetime, time, timedelta

import pytest

from builders import a_session
from gpufairy.core.errors import BadInput
from gpufairy.core.upkeep import before, goes, is_due, parse_keep, unused_tools

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
FOUR = time(4)


@pytest.mark.parametrize(("text", "days"), [("400d", 400), ("10w", 70), ("2y", 730), (" 1 D ", 1)])
def test_times_to_keep_are_read(text, days):
    assert parse_keep(text, "keep.x") == days * DAY


def test_for_ever_is_no_limit():
    assert parse_keep("forever", "keep.x") is None
    assert before(NOW, None) is None


@pytest.mark.parametrize("text", ["", "0d", "2h", "d", "-3d", "101y", "1e3d", "400", "9999999d"])
def test_what_is_no_time_to_keep_is_refused_in_words(text):
    with pytest.raises(BadInput, match=r"keep\.x: .* is no time between 1d and 100y"):
        parse_keep(text, "keep.x")


def test_the_clean_up_comes_once_after_each_of_its_hours():
    assert is_due(NOW - DAY, NOW - 9 * DAY, NOW, FOUR)
    assert not is_due(NOW.replace(hour=4, minute=1), NOW - 9 * DAY, NOW, FOUR)


def test_a_machine_that_slept_at_the_hour_does_it_when_it_is_back():
    assert is_due(NOW - 3 * DAY, NOW - 9 * DAY, NOW.replace(hour=3), FOUR)


def test_a_server_that_has_just_begun_waits_for_its_first_night():
    assert not is_due(None, NOW - timedelta(minutes=1), NOW, FOUR)
    assert is_due(None, NOW - DAY, NOW, FOUR)


def test_nothing_is_due_when_it_is_switched_off():
    assert not is_due(None, NOW - 9 * DAY, NOW, None)


def test_what_people_did_is_kept_longer_than_what_befell():
    events, audit = NOW - 400 * DAY, NOW - 730 * DAY
    assert goes(NOW - 500 * DAY, False, events, audit)
    assert not goes(NOW - 500 * DAY, True, events, audit)
    assert goes(NOW - 800 * DAY, True, events, audit)
    assert not goes(NOW - 9000 * DAY, True, events, None)


def test_old_tools_go_when_no_running_session_can_have_them():
    used = {"old": NOW - 20 * DAY, "new": NOW}
    assert unused_tools(used, {"new"}, [], NOW) == ["old"]
    assert unused_tools(used, {"new"}, [a_session("a", placed_at=NOW - 10 * DAY)], NOW) == ["old"]
    assert unused_tools(used, {"new"}, [a_session("a", placed_at=NOW - 21 * DAY)], NOW) == []


def test_old_tools_stay_a_week_for_who_goes_back_and_the_current_ones_always():
    assert unused_tools({"old": NOW - 6 * DAY, "new": NOW - 90 * DAY}, {"new"}, [], NOW) == []
