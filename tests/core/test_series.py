"""How finely a stretch of time is shown, and what a point may hold."""
from datetime import UTC, datetime, timedelta

import pytest

from gpufairy.core.series import COLUMNS, LARGEST_GRAINS, RAW, Kind, Subject, Total, floor_to, nearest_step, point, step_for

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
GPU = Subject(Kind.GPU, "GPU-1", "gpu01")


@pytest.mark.parametrize(
    ("back", "step"),
    [
        (timedelta(minutes=10), RAW),
        (timedelta(hours=1), 10),
        (timedelta(hours=2), 10),
        (timedelta(hours=12), 60),
        (timedelta(days=2), 3600),
        (timedelta(days=7), 3600),
        (timedelta(days=400), 3600),
    ],
)
def test_a_chart_up_to_now_takes_the_finest_step_with_at_most_a_thousand_points(back: timedelta, step: int):
    assert step_for(NOW - back, NOW, NOW) == step


def test_what_is_too_old_for_a_step_is_shown_in_one_that_was_kept():
    old = NOW - timedelta(days=5)
    assert step_for(old, old + timedelta(hours=1), NOW) == 60
    older = NOW - timedelta(days=90)
    assert step_for(older, older + timedelta(hours=1), NOW) == 3600


def test_a_step_that_is_asked_for_becomes_the_nearest_that_is_kept_and_no_coarser():
    hour_ago, month_ago = NOW - timedelta(hours=1), NOW - timedelta(days=40)
    assert [nearest_step(wanted, hour_ago, NOW) for wanted in (1, 10, 59, 60, 300, 3600, 86400)] == [10, 10, 10, 60, 60, 3600, 3600]
    assert nearest_step(10, month_ago, NOW) == 3600


def test_what_is_not_named_or_cannot_be_is_not_known():
    made = point(GPU, utilisation=float("nan"), power_w=-1.0, temperature_c=-5.0, memory_bytes=float("inf"), held=0.0)
    assert (made.value("utilisation"), made.value("power_w"), made.value("temperature_c")) == (None, None, -5.0)
    assert (made.value("memory_bytes"), made.value("held"), made.value("sm_active")) == (None, 0.0, None)


def test_a_value_beyond_all_reason_is_cut_to_what_can_be_kept():
    assert point(GPU, power_w=1e300).value("power_w") == LARGEST_GRAINS * 0.1


def test_every_column_has_a_name_of_its_own():
    for columns in COLUMNS.values():
        assert len({column.name for column in columns}) == len(columns)


def test_totals_add_up():
    assert Total(1.0, 2.0) + Total(3.0, 4.0) == Total(4.0, 6.0)


def test_a_time_is_cut_to_the_beginning_of_its_step():
    assert floor_to(NOW + timedelta(seconds=61.5), 60) == NOW + timedelta(seconds=60)
