"""Warnings before a session's end."""
from datetime import UTC, datetime, timedelta

from gpufairy.core.ending import Ending
from gpufairy.gateway.endings import Warnings, warning

END = datetime(2026, 11, 15, 12, tzinfo=UTC)
TRAIN = Ending("id-1", "kim", "train", END)


def before(minutes, seconds=0):
    return END - timedelta(minutes=minutes, seconds=seconds)


def test_ten_five_and_one_minute_before_the_end_people_are_warned_once_each():
    warnings = Warnings()
    warnings.replace([TRAIN])
    looks = [before(12), before(10), before(9), before(5), before(4), before(1), before(0, 30), END]
    assert [len(warnings.due(now)) for now in looks] == [0, 1, 0, 1, 0, 1, 0, 0]


def test_of_warnings_that_were_missed_one_is_enough():
    warnings = Warnings()
    warnings.replace([TRAIN])
    assert warnings.due(before(0, 30)) == [TRAIN]
    assert warnings.due(before(0, 20)) == []


def test_the_same_roster_again_warns_nobody_twice():
    warnings = Warnings()
    for _ in range(2):
        warnings.replace([TRAIN])
        told = warnings.due(before(4))
    assert told == []


def test_a_session_that_is_kept_longer_is_warned_of_its_new_end():
    warnings = Warnings()
    warnings.replace([TRAIN])
    warnings.due(before(1))
    later = Ending("id-1", "kim", "train", END + timedelta(hours=2))
    warnings.replace([later])
    assert warnings.due(before(1)) == []
    assert warnings.due(later.ends_at - timedelta(minutes=1)) == [later]


def test_the_next_look_is_when_the_next_warning_is_due():
    warnings = Warnings()
    warnings.replace([TRAIN])
    assert warnings.next_look_s(before(12)) == 120
    assert warnings.next_look_s(before(0, 30)) is None


def test_a_warning_says_what_to_do():
    assert warning(TRAIN, before(5)) == "session train ends in 5 min; `fairy keep train 2h` asks for more time"
