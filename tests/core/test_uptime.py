"""Uptime: what part of the watched time a host was there, what was planned, and why it was away."""
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOW
from gpufairy.core.alert import Alert, Severity
from gpufairy.core.maintenance import Window, as_silence
from gpufairy.core.uptime import Back, Downtime, Spell, both, merged, record_of, why_away, without

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SILENT = Alert("a", "node_silent", "gpu01", "gpu01", Severity.CRITICAL, "gpu01 is silent", "", NOW, NOW, fired_at=NOW)
BACK_AT = NOW + timedelta(minutes=10)
AWAY_S = 600.0


def away(start, end, node="gpu01"):
    return Downtime(node, NOW + start, None if end is None else NOW + end, "it is back")


def record(*downtimes, over=10 * DAY, **more):
    return record_of("gpu01", downtimes, NOW, NOW + over, **more)


def test_a_tenth_of_the_time_away_is_a_tenth_off_the_record():
    assert record(away(DAY, 2 * DAY)).part == pytest.approx(0.9)
    assert record(away(DAY, 2 * DAY, "gpu02")).part == 1.0
    assert record(away(-5 * DAY, DAY)).part == pytest.approx(0.9), "what was before it was watched does not count"
    assert record(away(9 * DAY, None)).part == pytest.approx(0.9), "it lasts"


def test_time_in_which_nobody_watched_is_neither_up_nor_down():
    blind = [Spell(NOW + DAY, NOW + 6 * DAY)]
    found = record(away(6 * DAY, 7 * DAY), unwatched=blind)
    assert (found.part, found.unwatched) == (pytest.approx(1 - 1 / 5), 5 * DAY)
    whole = record(away(DAY, 6 * DAY), unwatched=blind)
    assert whole.part == 1.0, "it was silent while the server was away, which says nothing"


def test_what_was_planned_is_shown_and_does_not_count_against_a_host():
    window = Window("w", "gpu01", NOW + DAY, NOW + 2 * DAY, "kim", "new disk")
    found = record(away(DAY + HOUR, DAY + 2 * HOUR), windows=[window])
    assert (found.part, found.planned, found.downtimes[0].planned) == (1.0, HOUR, True)
    longer = record(away(DAY + HOUR, 3 * DAY + HOUR), windows=[window])
    assert longer.downtimes[0].planned is False
    assert longer.part == pytest.approx(1 - (25 / 24) / 10), "only what went beyond the window"
    assert record(away(DAY, 2 * DAY), windows=[replace(window, node="gpu02")]).part == pytest.approx(0.9)


def test_a_host_that_is_watched_since_this_moment_has_a_whole_record():
    assert record(over=timedelta()).part == 1.0


@pytest.mark.parametrize(
    ("back", "words"),
    [
        (Back(30.0, "b", "a", 20.0), "the host was started anew"),
        (Back(9e5, "b", "a", 20.0), "the host was started anew"),
        (Back(30.0), "the host was started anew"),
        (Back(9e5, "a", "a", 20.0), "its agent had stopped, the host itself ran on"),
        (Back(9e5, "a", "a", 9e4), "the network was away, the host and its agent ran on"),
        (Back(9e5, "a", "a"), "its agent or the network was away, the host itself ran on"),
        (Back(9e5, "a", "", 20.0), "its agent had stopped, the host itself ran on"),
        (Back(1.8e19, "", "", 1.8e19), "the network was away, the host and its agent ran on"),
    ],
)
def test_why_it_was_away_is_told_by_boot_id_and_by_how_long_its_agent_runs(back, words):
    assert why_away(SILENT, back, [], BACK_AT) == f"it is back; {words}"


def test_without_anything_known_nothing_is_said():
    assert why_away(SILENT, Back(), [], BACK_AT) == "it is back"


def test_a_window_is_the_reason_with_who_planned_it():
    window = Window("w", "gpu01", NOW - HOUR, NOW + HOUR, "kim", "new disk")
    assert why_away(SILENT, Back(30.0, "b", "a"), [as_silence(window)], BACK_AT) == "it is back; maintenance by kim: new disk"
    assert "anew" in why_away(SILENT, Back(30.0, "b", "a"), [as_silence(replace(window, node="gpu02"))], BACK_AT)


def test_spells_are_merged_cut_and_shared():
    def spell(start, end):
        return Spell(NOW + start * HOUR, NOW + end * HOUR)

    assert merged([spell(4, 5), spell(1, 2), spell(2, 3)]) == [spell(1, 3), spell(4, 5)]
    assert both([spell(1, 5)], [spell(0, 2), spell(4, 9)]) == [spell(1, 2), spell(4, 5)]
    assert without([spell(1, 5)], [spell(2, 3)]) == [spell(1, 2), spell(3, 5)]
    assert without([spell(1, 2)], [spell(0, 3)]) == []
