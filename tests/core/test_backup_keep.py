"""When a backup is due, which ones stay, and what a manifest must be to be believed."""
import json
from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.backup_keep import KeepRule, next_backup, to_keep
from gpufairy.core.backup_manifest import Manifest, PackedFile, manifest_from_text
from gpufairy.core.errors import BadInput

NIGHT, DAY, HOUR = time(2, 30), timedelta(days=1), timedelta(hours=1)
NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
GOOD = Manifest(NOON, "0.1.0", "0013", "scheduled", False, {"users": 3}, (PackedFile("fairy.db", 10, "0" * 64), PackedFile("data/server-id", 12, "1" * 64)))


def test_the_next_one_is_at_its_hour_of_the_next_day():
    last = datetime(2026, 11, 16, 2, 30, 7, tzinfo=UTC)
    assert next_backup(last, NOON, DAY, NIGHT) == datetime(2026, 11, 17, 2, 30, tzinfo=UTC)
    assert next_backup(NOON, NOON, DAY, NIGHT) == datetime(2026, 11, 17, 2, 30, tzinfo=UTC)


def test_one_by_hand_just_before_the_hour_is_not_followed_at_once_by_another():
    late = datetime(2026, 11, 16, 23, 50, tzinfo=UTC)
    assert next_backup(late, NOON, DAY, NIGHT) == datetime(2026, 11, 18, 2, 30, tzinfo=UTC)


def test_a_server_without_any_makes_one_within_an_hour_or_at_its_hour():
    assert next_backup(None, NOON, DAY, NIGHT) == NOON + HOUR
    assert next_backup(None, NOON.replace(hour=2), DAY, NIGHT) == NOON.replace(hour=2, minute=30)


def test_more_often_than_daily_goes_by_the_last_one_alone():
    assert next_backup(NOON, NOON, 6 * HOUR, NIGHT) == NOON + 6 * HOUR


def test_a_year_of_nights_leaves_seven_days_four_weeks_and_six_months():
    nights = [datetime(2026, 1, 1, 2, 30, tzinfo=UTC) + n * DAY for n in range(365)]
    kept = to_keep(nights, KeepRule())
    assert set(nights[-7:]) <= kept
    assert len({at.isocalendar()[:2] for at in kept}) >= 4
    assert {(at.year, at.month) for at in kept} == {(2026, month) for month in range(7, 13)}
    assert len(kept) <= 7 + 4 + 6


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_the_newest_always_stays_and_thinning_twice_takes_nothing_more(hours, daily, weekly, monthly):
    made = [NOON + n * HOUR for n in hours]
    rule = KeepRule(daily, weekly, monthly)
    kept = to_keep(made, rule)
    assert max(made) in kept
    assert kept <= set(made)
    assert to_keep(kept, rule) == kept


def test_a_manifest_comes_back_as_it_was_written():
    assert manifest_from_text(GOOD.to_text()) == GOOD


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format '2'"),
        ({"files": [{"name": "../../etc/passwd", "size_bytes": 1, "sha256": "0" * 64}]}, "no backup of ours does"),
        ({"files": [{"name": "/etc/shadow", "size_bytes": 1, "sha256": "0" * 64}]}, "no backup of ours does"),
        ({"files": [{"name": "data/ssh/../../x", "size_bytes": 1, "sha256": "0" * 64}]}, "no backup of ours does"),
        ({"files": [{"name": "fairy.db", "size_bytes": -1, "sha256": "0" * 64}]}, "size or a checksum"),
        ({"files": [{"name": "fairy.db", "size_bytes": 1, "sha256": "x"}]}, "size or a checksum"),
        ({"files": [{"name": "fairy.db", "size_bytes": 1, "sha256": "0" * 64}] * 2}, "twice"),
        ({"files": []}, "exactly one database"),
        ({"made_at": "2026-11-16T12:00:00"}, "when it was made"),
        ({"made_at": 5}, "cannot be read"),
        ({"counts": [1]}, "cannot be read"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(change, words):
    with pytest.raises(BadInput, match=words):
        manifest_from_text(json.dumps({**json.loads(GOOD.to_text()), **change}))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[" * 100_000, '{"format": 1}', "\x00"])
def test_nonsense_is_no_manifest(text):
    with pytest.raises(BadInput):
        manifest_from_text(text)
