"""The ledger's arithmetic, and values that survive being written down."""
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.cluster import Policy
from gpufairy.core.ledger import Hold, Usage, added, faded, hold_ended
from gpufairy.core.lifecycle import Happening, Phase
from gpufairy.core.plain import session_from_plain, session_to_plain
from gpufairy.core.session import GpuSeat, Outcome, Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.core.steps import end, noted, place, reseat
from gpufairy.core.turn import standings
from scenes import GIB, NOW, a_cluster, a_session

WEEK = timedelta(days=7)
SEAT = Seat("gpu01", 1000, GIB, (GpuSeat(0, "GPU-1", PARTS // 2, GIB, enforced=("memory",)),), charge_parts=PARTS)


def a_hold(since, until) -> Hold:
    return Hold(a_session(), SEAT, since, until)


def test_use_counts_half_after_a_half_life():
    assert faded(Usage(100.0, NOW), NOW + WEEK, WEEK) == pytest.approx(50)


def test_a_short_hold_is_its_length_times_its_charge():
    assert added(None, a_hold(NOW, NOW + timedelta(minutes=1)), WEEK).gpu_seconds == pytest.approx(60, rel=1e-3)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_hold_written_in_two_parts_counts_the_same(first_s, second_s):
    middle, finish = NOW + timedelta(seconds=first_s), NOW + timedelta(seconds=first_s + second_s)
    whole = added(None, a_hold(NOW, finish), WEEK)
    parts = added(added(None, a_hold(NOW, middle), WEEK), a_hold(middle, finish), WEEK)
    assert parts.gpu_seconds == pytest.approx(whole.gpu_seconds, rel=1e-6)


@given(st.integers(-(10**7), 10**7), st.integers(-(10**7), 10**7))
def test_clocks_that_run_back_never_make_use_negative(since_s, until_s):
    hold = a_hold(NOW + timedelta(seconds=since_s), NOW + timedelta(seconds=until_s))
    assert hold.seconds >= 0
    assert added(Usage(10.0, NOW), hold, WEEK).gpu_seconds >= 0


def test_a_hold_ends_when_the_seat_is_freed_and_not_before():
    placed = place(a_session(), SEAT, NOW, "").after
    running = replace(placed, phase=Phase.RUNNING)
    ended = end(running, Happening.EXITED, NOW + timedelta(seconds=90), outcome=Outcome.DONE, why="", exit_code=0)
    assert hold_ended(ended).seconds == 90
    assert hold_ended(place(a_session(), SEAT, NOW, "")) is None


def test_a_start_is_charged_once_however_often_the_seat_is_changed():
    penalty, usage = timedelta(minutes=1), None
    session = replace(place(a_session(), SEAT, NOW, "").after, phase=Phase.RUNNING, started_at=NOW)
    for second in (10, 20, 30):
        seat = replace(SEAT, memory_bytes=second)
        made = reseat(noted(session, "changed", NOW, ""), seat, NOW + timedelta(seconds=second))
        usage, session = added(usage, hold_ended(made), WEEK, penalty), made.after
    ended = end(session, Happening.EXITED, NOW + timedelta(seconds=40), outcome=Outcome.DONE, why="")
    assert added(usage, hold_ended(ended), WEEK, penalty).gpu_seconds == pytest.approx(60, rel=1e-3)
    standing = standings(a_cluster(holding=[session], policy=Policy(entry_penalty=penalty)), NOW + timedelta(minutes=2))
    longer = standings(a_cluster(holding=[session], policy=Policy(entry_penalty=timedelta(0))), NOW + timedelta(minutes=2))
    assert standing == longer  # it has run for longer than what a start is charged


def test_a_session_written_down_and_read_again_is_the_same():
    session = place(a_session(env=(("A", "1"),), time_limit=WEEK, after=("x",), mounts=("data",)), SEAT, NOW, "why").after
    assert session_from_plain(json.loads(json.dumps(session_to_plain(session)))) == session


def test_an_older_label_without_newer_fields_is_read():
    plain = session_to_plain(a_session())
    for name in ("refusals", "placed_at", "stop_why", "team"):
        del plain[name]
    assert isinstance(session_from_plain(plain), Session)
