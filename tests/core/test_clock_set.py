"""A clock that was set between two starts moves the times of what runs; one that drifted, or another machine's, moves nothing."""
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOW, a_session
from gpufairy.core.clock_set import ClockMark, moved, set_by

HOUR, YEAR = timedelta(hours=1), timedelta(days=365)
MARK = ClockMark(NOW, 1000.0, "boot-1")


@pytest.mark.parametrize(("wall", "up_s", "by"), [
    (NOW + HOUR, 4600.0, None), (NOW + HOUR + timedelta(seconds=30), 4600.0, None), (NOW + HOUR + YEAR, 4600.0, YEAR),
    (NOW - YEAR, 1000.0, -YEAR), (NOW, 1000.0 + 7200, -2 * HOUR),
])  # fmt: skip
def test_what_the_wall_went_further_than_the_steady_clock_is_by_how_much_it_was_set(wall, up_s, by):
    assert set_by(MARK, ClockMark(wall, up_s, "boot-1")) == by


def test_after_another_start_of_the_machine_or_for_the_first_time_nobody_knows():
    later = ClockMark(NOW + YEAR, 5.0, "boot-2")
    assert set_by(MARK, later) is None
    assert set_by(None, later) is None
    assert set_by(replace(MARK, boot_id=""), replace(later, boot_id="")) is None


def test_times_are_moved_and_what_is_none_stays_none():
    session = a_session("work", started_at=NOW, placed_at=NOW, since=NOW)
    after = moved(session, YEAR)
    assert (after.started_at, after.placed_at, after.since) == (NOW + YEAR,) * 3
    assert (after.idle_since, after.kept_until, after.submitted_at) == (None, None, session.submitted_at)
    assert after.revision == session.revision + 1
