"""The doctor by night, as values: what newly fails, what came back, what is well again; what could not be looked at changes nothing."""
from datetime import UTC, datetime, timedelta

from gpufairy.core.alert_gpus import EccCounts
from gpufairy.core.alert_hosts import HostTrends
from gpufairy.core.alert_house import judgements
from gpufairy.core.alert_look import AlertLook
from gpufairy.core.doctor import Finding, Verdict
from gpufairy.core.doctor_night import Nights, after_look, after_night, began, ended, nights_from_plain, nights_to_plain

FIRST = datetime(2026, 11, 16, 4, tzinfo=UTC)
DAY = timedelta(days=1)


def found(check: str, verdict: Verdict, words: str = "as it is") -> Finding:
    return Finding(check, check.title(), verdict, words, "It matters.")


def nights_of(*verdicts: Verdict) -> list[Nights]:
    """One check, night after night."""
    nights = [Nights()]
    for number, verdict in enumerate(verdicts):
        nights.append(after_night(nights[-1], [found("disk", verdict)], FIRST + number * DAY))
    return nights[1:]


def test_what_fails_is_told_from_the_night_on_in_which_it_began():
    well, bad, still = nights_of(Verdict.OK, Verdict.BAD, Verdict.BAD)
    assert (well.troubles, began(well, bad), began(bad, still)) == ((), ["disk"], [])
    assert still.troubles[0].since == FIRST + DAY
    assert not still.troubles[0].again


def test_what_came_back_is_told_as_such():
    first, well, back = nights_of(Verdict.BAD, Verdict.OK, Verdict.BAD)
    assert (ended(first, well), began(well, back), back.troubles[0].again) == (["disk"], ["disk"], True)


def test_a_warning_is_no_failure_and_what_could_not_be_looked_at_stays_what_it_was():
    assert nights_of(Verdict.WARN)[-1].troubles == ()
    assert nights_of(Verdict.UNKNOWN)[-1].troubles == ()
    bad, unknown, well = nights_of(Verdict.BAD, Verdict.UNKNOWN, Verdict.SKIPPED)
    assert unknown.troubles == bad.troubles
    assert well.troubles == ()


def test_a_check_that_there_is_no_more_is_over():
    bad = nights_of(Verdict.BAD)[-1]
    assert after_night(bad, [found("clock", Verdict.OK)], FIRST + DAY).troubles == ()


def test_a_look_that_was_asked_for_ends_a_trouble_and_begins_none():
    bad = nights_of(Verdict.BAD)[-1]
    asked = after_look(bad, [found("disk", Verdict.BAD, "2 GiB are left"), found("clock", Verdict.BAD)])
    assert [(one.check, one.found) for one in asked.troubles] == [("disk", "2 GiB are left")]
    assert after_look(asked, [found("disk", Verdict.OK)]).troubles == ()


def test_nights_come_back_from_the_database_as_they_were():
    for nights in (Nights(), nights_of(Verdict.BAD, Verdict.OK, Verdict.BAD)[-1]):
        assert nights_from_plain(nights_to_plain(nights)) == nights


def doctor_judged(nights: Nights | None):
    look = AlertLook(FIRST + 3 * DAY, doctor=None if nights is None else nights.troubles)
    return next(one for one in judgements(look, HostTrends(), EccCounts()) if one.rule == "doctor")


def test_each_failing_check_is_an_alert_of_its_own_and_all_others_are_fine():
    judged = doctor_judged(nights_of(Verdict.OK, Verdict.BAD)[-1])
    assert [(thing, one.sentence) for thing, one in judged.bad.items()] == [("disk", "Disk fails on the server's host, since 2026-11-17: as it is")]
    assert "clock" in judged.fine
    back = doctor_judged(nights_of(Verdict.BAD, Verdict.OK, Verdict.BAD)[-1])
    assert back.bad["disk"].sentence == "Disk fails on the server's host, again, after it was well: as it is"


def test_before_anybody_has_looked_nothing_is_said():
    judged = doctor_judged(None)
    assert (judged.bad, "disk" in judged.fine) == ({}, False)
