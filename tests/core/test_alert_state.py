"""From pending over firing to resolved: what fires, how fast it may change, who is told, what is kept silent."""
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW
from gpufairy.core.alert import NOT_KNOWN_FOR, AlertState, Condition, Judgement, Rule, Severity, acknowledged, judge
from gpufairy.core.alert_tell import MOST_NEW, Channel, tell
from gpufairy.core.delivery import FIRST_WAIT, LONGEST_WAIT, Pace, delivered, failed, may_send
from gpufairy.core.errors import BadInput
from gpufairy.core.letter import letter_of, subject_of, text_of
from gpufairy.core.silence import Silence, checked_silence
from gpufairy.core.uptime import Back, downtimes_of, record_of, why_away

AFTER, HOLD, STEP = timedelta(seconds=30), timedelta(seconds=60), timedelta(seconds=5)
RULE = Rule("hot", Severity.WARNING, "Hot", "it is hot", "Cool it.", AFTER, HOLD)
RULES = {"hot": RULE}
OPS = Channel("ops", "webhook")


def bad(thing="gpu01 GPU 0", node="gpu01"):
    return Judgement("hot", {thing: Condition(thing, node, f"{thing} is hot")})


def fine(thing="gpu01 GPU 0"):
    return Judgement("hot", {}, {thing})


UNKNOWN = Judgement("hot")


class Story:
    """One judgement after the other, five seconds apart."""

    def __init__(self):
        self.now, self.alerts, self.fired, self.resolved = NOW, {}, [], []

    def see(self, judgement, times=1, nodes=("gpu01",)):
        for _ in range(times):
            judged = judge(self.alerts, [judgement], RULES, self.now, nodes)
            self.alerts = dict(judged.alerts)
            self.fired += [(self.now, one) for one in judged.fired]
            self.resolved += [(self.now, one) for one in judged.resolved]
            self.now += STEP
        return self

    @property
    def states(self):
        return [one.state for one in self.alerts.values()]


def test_it_is_pending_until_it_was_bad_for_long_enough():
    story = Story().see(bad(), 6)
    assert story.states == [AlertState.PENDING]
    assert story.see(bad()).states == [AlertState.FIRING]
    assert [one.sentence for _, one in story.fired] == ["gpu01 GPU 0 is hot"]


def test_what_was_bad_for_a_moment_never_fires():
    assert Story().see(bad(), 5).see(fine()).see(bad(), 5).see(fine()).fired == []


def test_it_is_over_only_after_being_fine_for_a_while():
    story = Story().see(bad(), 7).see(fine(), 12)
    assert story.states == [AlertState.FIRING]
    assert story.see(fine()).states == []
    [(_, over)] = story.resolved
    assert (over.state, over.ended_why) == (AlertState.RESOLVED, "it is over")


def test_not_knowing_neither_fires_nor_resolves_and_ends_after_half_an_hour():
    assert Story().see(bad(), 6).see(UNKNOWN, 20).fired == []
    story = Story().see(bad(), 7).see(UNKNOWN, NOT_KNOWN_FOR // STEP - 1)
    assert story.states == [AlertState.FIRING]
    story.see(UNKNOWN, 2)
    assert [one.ended_why for _, one in story.resolved] == ["nothing is known of it any more"]


def test_alerts_of_a_host_that_is_watched_no_more_are_over():
    story = Story().see(bad(), 7).see(UNKNOWN, nodes=())
    assert [one.ended_why for _, one in story.resolved] == ["it is not watched any more"]


@given(st.lists(st.sampled_from([bad(), fine(), UNKNOWN]), max_size=200))
def test_nothing_flaps_faster_than_its_hysteresis(judgements):
    story = Story()
    for judgement in judgements:
        story.see(judgement)
    for (fired, _), (over, _) in zip(story.fired, story.resolved, strict=False):
        assert over - fired >= HOLD
    for (over, _), (again, _) in zip(story.resolved, story.fired[1:], strict=False):
        assert again - over >= AFTER
    times = [at for at, _ in story.fired]
    assert all(later - earlier >= HOLD + AFTER for earlier, later in pairwise(times))


@given(st.lists(st.sampled_from([fine(), UNKNOWN]), max_size=100))
def test_nothing_ever_fires_on_what_was_never_bad(judgements):
    story = Story()
    for judgement in judgements:
        story.see(judgement)
    assert (story.alerts, story.fired) == ({}, [])


def firing(**fields):
    story = Story().see(bad(), 7)
    return replace(next(iter(story.alerts.values())), **fields), story.now


def told(alert, now, channels=(OPS,), silences=(), repeat=timedelta(hours=12), resolved=()):
    return tell([alert], resolved, channels, silences, now, repeat=repeat)


def test_a_channel_is_told_once_and_again_after_a_while_if_nobody_took_note():
    alert, now = firing()
    first = told(alert, now)
    assert [(post.channel, post.key) for post in first.posts] == [("ops", alert.id)]
    [alert] = first.alerts
    assert told(alert, now + timedelta(hours=1)).posts == ()
    assert len(told(alert, now + timedelta(hours=12)).posts) == 1
    assert told(acknowledged(alert, "kim", now), now + timedelta(hours=12)).posts == ()


def test_a_second_channel_is_told_only_when_nobody_took_note():
    boss, (alert, now) = Channel("boss", "email", escalate_after=timedelta(minutes=10)), firing()
    [alert] = told(alert, now, (OPS, boss)).alerts
    assert told(alert, now + timedelta(minutes=9), (OPS, boss)).posts == ()
    later = told(alert, now + timedelta(minutes=11), (OPS, boss))
    assert [post.channel for post in later.posts] == ["boss"]
    assert told(later.alerts[0], now + timedelta(minutes=12), (OPS, boss)).posts == (), "once"
    assert told(acknowledged(alert, "kim", now), now + timedelta(minutes=11), (OPS, boss)).posts == ()
    over = replace(later.alerts[0], resolved_at=now, ended_why="it is over")
    assert [post.channel for post in tell([], [over], (OPS, boss), (), now, repeat=None).posts] == ["ops", "boss"]
    assert [post.channel for post in tell([], [replace(over, escalated_at=None)], (OPS, boss), (), now, repeat=None).posts] == ["ops"]


def test_channels_are_told_what_they_ask_for_alone():
    alert, now = firing()
    for channel in (Channel("a", "ntfy", Severity.CRITICAL), Channel("b", "ntfy", rules=("disk_*",)), Channel("c", "ntfy", nodes=("gpu02",))):
        assert told(alert, now, (channel,)).posts == ()
    assert len(told(alert, now, (Channel("d", "ntfy", rules=("h*",), nodes=("gpu0?",)),)).posts) == 1


def test_a_silenced_alert_is_told_when_the_silence_ends_and_it_still_fires():
    alert, now = firing()
    silence = Silence("s", now, now + timedelta(hours=2), "kim", "new disk", node="gpu0*")
    assert told(alert, now, silences=[silence]) == tell([], [], (), (), now, repeat=None)
    assert len(told(alert, now + timedelta(hours=2), silences=[silence]).posts) == 1
    assert len(told(alert, now, silences=[replace(silence, node="gpu02")]).posts) == 1
    over = replace(alert, resolved_at=now + timedelta(hours=1))
    assert tell([], [over], [OPS], [silence], now + timedelta(hours=1), repeat=None).posts == (), "who heard nothing of it need not hear that it is over"


@pytest.mark.slow
def test_a_storm_is_told_as_the_worst_and_a_number():
    alert, now = firing()
    storm = [replace(alert, id=str(number), thing=str(number), severity=Severity.CRITICAL if number % 100 == 0 else Severity.WARNING) for number in range(10_000)]
    posts = tell(storm, [], [OPS], [], now, repeat=None).posts
    assert len(posts) == MOST_NEW + 1
    assert sum(post.item.severity == "critical" for post in posts) == 100
    assert posts[-1].item.sentence == f"{10_000 - MOST_NEW} more alerts changed at the same time; see `fairy alerts`"


@pytest.mark.parametrize(
    "fault", [{"end": NOW}, {"end": NOW + timedelta(days=365)}, {"why": " "}, {"rule": ""}, {"node": "a" * 300}, {"thing": "\x1b[2J"}], ids=str
)
def test_a_silence_that_makes_no_sense_is_refused(fault):
    with pytest.raises(BadInput):
        checked_silence(replace(Silence("s", NOW, NOW + timedelta(hours=1), "kim", "new disk"), **fault), NOW)


def test_a_letter_tells_the_worst_first_and_what_to_do_and_nothing_strangers_wrote_looks_like_ours():
    alert, now = firing()
    worse = replace(alert, severity=Severity.CRITICAL, sentence="evil\nFrom: you\u202e name")
    letter = letter_of([post.item for one in (alert, worse) for post in told(one, now).posts], "https://lab")
    assert subject_of(letter) == "[critical] evil From: you  name (and 1 more)"
    assert text_of(letter).splitlines() == ["[critical] evil From: you  name.", "  What to do: Cool it.", "[warning] gpu01 GPU 0 is hot.", "  What to do: Cool it.", "", "https://lab"]


def test_a_channel_that_fails_is_tried_again_ever_more_rarely_and_not_all_at_the_same_time():
    pace, waits = Pace(), []
    for _ in range(20):
        pace = failed(pace, NOW, 1.0)
        waits.append(pace.not_before - NOW)
    assert waits[0] == FIRST_WAIT
    assert waits[-1] == LONGEST_WAIT
    assert waits == sorted(waits)
    assert failed(Pace(), NOW, 0.0).not_before - NOW == FIRST_WAIT / 2
    assert not may_send(pace, NOW, 30)
    assert may_send(pace, NOW + LONGEST_WAIT, 30)


@given(st.lists(st.integers(0, 600), max_size=300))
def test_no_channel_gets_more_letters_an_hour_than_it_may(gaps_s):
    pace, now, sent = Pace(), NOW, []
    for gap in gaps_s:
        now += timedelta(seconds=gap)
        if may_send(pace, now, 5):
            sent.append(now)
            pace = delivered(pace, now, timedelta(seconds=5))
    assert all(later - earlier >= timedelta(hours=1) for earlier, later in zip(sent, sent[5:], strict=False))


def test_downtimes_have_reasons_and_make_the_uptime_record():
    alert, now = firing(rule="node_silent", thing="gpu01", since=NOW, fired_at=NOW)
    window = Silence("s", NOW - timedelta(hours=1), NOW + timedelta(hours=1), "kim", "new disk", node="gpu01")
    assert why_away(alert, Back(30.0), [window], now) == "it is back; maintenance by kim: new disk"
    assert why_away(alert, Back(30.0), [], now) == "it is back; the host was started anew"
    assert "the host itself ran on" in why_away(alert, Back(86400.0), [], now)
    over = replace(alert, resolved_at=NOW + timedelta(minutes=72), ended_why="it is back")
    record = record_of("gpu01", downtimes_of([over]), NOW - timedelta(days=1), NOW + timedelta(days=4))
    assert record.part == pytest.approx(0.99)
    assert record.downtimes[0].why == "it is back"
