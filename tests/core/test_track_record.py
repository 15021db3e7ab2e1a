"""Track record: ranges are learnt from how forecasts turned out."""
from datetime import timedelta

from gpufairy.core.forecast import Start
from gpufairy.core.track_record import LEARNT, TOLD, TrackRecord
from scenes import NOW

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
TOLD_IN_AN_HOUR = Start(NOW + HOUR, NOW + HOUR, NOW + HOUR)


def learnt(waits):
    record = TrackRecord()
    for number, wait in enumerate(waits):
        record.noted({f"s{number}": TOLD_IN_AN_HOUR}, NOW)
        record.started(f"s{number}", NOW + wait)
    return record


def test_before_anything_is_learnt_the_range_is_wide():
    ranged = TrackRecord().ranged(TOLD_IN_AN_HOUR, NOW)
    assert NOW <= ranged.low < NOW + 30 * MINUTE
    assert ranged.high > NOW + 2 * HOUR
    assert ranged.typical == NOW + HOUR


def test_forecasts_that_come_true_make_the_range_narrow():
    ranged = learnt([HOUR + n % 5 * MINUTE for n in range(LEARNT)]).ranged(TOLD_IN_AN_HOUR, NOW)
    assert (ranged.low, ranged.high) == (NOW + HOUR, NOW + HOUR + 4 * MINUTE)


def test_where_others_go_first_the_range_reaches_later():
    ranged = learnt([3 * HOUR] * LEARNT).ranged(TOLD_IN_AN_HOUR, NOW)
    assert ranged.high == NOW + 3 * HOUR
    assert ranged.low == NOW + HOUR  # a start is never outside of its own range


def test_a_range_holds_as_many_as_it_says():
    waits = [(20 + 7 * n % 101) * MINUTE for n in range(LEARNT)]
    ranged = learnt(waits).ranged(TOLD_IN_AN_HOUR, NOW)
    inside = sum(ranged.low <= NOW + wait <= ranged.high for wait in waits)
    assert 0.78 * LEARNT <= inside <= 0.9 * LEARNT


def test_what_never_started_or_is_unknown_tells_nothing():
    record, unknown = TrackRecord(), Start(None)
    record.noted({"gone": TOLD_IN_AN_HOUR, "unknown": unknown}, NOW)
    record.ended("gone")
    record.started("gone", NOW)
    record.started("unknown", NOW)
    assert record.ranged(TOLD_IN_AN_HOUR, NOW) == TrackRecord().ranged(TOLD_IN_AN_HOUR, NOW)
    assert record.ranged(unknown, NOW) is unknown


def test_a_clock_that_runs_back_teaches_nothing():
    record = TrackRecord()
    record.noted({"s": TOLD_IN_AN_HOUR}, NOW)
    record.started("s", NOW - HOUR)
    assert record.ranged(TOLD_IN_AN_HOUR, NOW) == TrackRecord().ranged(TOLD_IN_AN_HOUR, NOW)


def test_a_late_end_that_nobody_knows_stays_unknown():
    open_ended = Start(NOW + HOUR, NOW + HOUR, None)
    assert TrackRecord().ranged(open_ended, NOW).high is None


def test_no_more_forecasts_are_remembered_than_can_come_true_soon():
    record = TrackRecord()
    record.noted({f"s{number}": TOLD_IN_AN_HOUR for number in range(TOLD + 10)}, NOW)
    assert len(record._told) == TOLD
