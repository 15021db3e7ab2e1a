"""The lifecycle table, exactly as designed, and every walk through it."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import IllegalStep
from gpufairy.core.lifecycle import ALLOWED, HOLDS_GPUS, Happening, Phase, state_word
from gpufairy.core.session import Seat
from gpufairy.core.steps import requeue, step
from scenes import NOW, a_session

DESIGN = """
QUEUED --placed--> PLACED
PLACED --launch_ordered--> STARTING
STARTING --ready--> RUNNING
RUNNING --exited--> ENDED
QUEUED --told_to_stop--> ENDED
PLACED --told_to_stop--> ENDED
STARTING --told_to_stop--> STOPPING
RUNNING --told_to_stop--> STOPPING
STOPPING --gone--> ENDED
PLACED --refused--> QUEUED
STARTING --refused--> QUEUED
PLACED --node_silent--> QUEUED
STOPPING --requeued--> QUEUED
STARTING --node_silent--> LOST
RUNNING --node_silent--> LOST
STOPPING --node_silent--> LOST
LOST --node_back--> STARTING
LOST --gave_up--> ENDED
LOST --requeued--> QUEUED
LOST --exited--> ENDED
STARTING --exited--> ENDED
STOPPING --swapped--> STARTING
STARTING --swapped--> STARTING
RUNNING --swapped--> STARTING
"""


def test_the_table_is_the_one_of_the_design():
    rows = [line.replace("--> ", "--").split(" --") for line in DESIGN.strip().splitlines()]
    designed = {(Phase[before], Happening(what.split("--")[0])): Phase[what.split("--")[1]] for before, what in rows}
    assert designed == ALLOWED


def test_nothing_happens_to_an_ended_session():
    for what in Happening:
        with pytest.raises(IllegalStep, match="ended"):
            step(a_session(phase=Phase.ENDED), what, NOW)


@given(st.lists(st.sampled_from(Happening), max_size=40))
def test_every_walk_keeps_to_the_table(happenings):
    session = a_session()
    for number, what in enumerate(happenings):
        now = NOW + timedelta(seconds=number)
        if (session.phase, what) not in ALLOWED:
            with pytest.raises(IllegalStep):
                step(session, what, now)
            continue
        after = step(session, what, now, "because")
        assert after.phase is ALLOWED[session.phase, what]
        assert after.since == now
        assert (after.ended_at is not None) == (after.phase is Phase.ENDED)
        if after.phase is Phase.QUEUED:
            assert after.seat is None
            assert after.started_at is None
        session = after if after.phase is not Phase.PLACED else replace(after, seat=Seat("gpu01", 1000, 1), placed_at=now)
        assert session.holds_gpus == (session.phase in HOLDS_GPUS)


def test_every_phase_can_be_reached_and_left():
    assert set(ALLOWED.values()) | {Phase.QUEUED} == set(Phase)
    assert {before for before, _ in ALLOWED} == set(Phase) - {Phase.ENDED}


def test_a_change_of_two_steps_is_one_write_with_two_events():
    running = a_session(phase=Phase.RUNNING, revision=7)
    made = requeue(running, NOW, "exit code 1")
    assert [event.what for event in made.events] == ["told_to_stop", "requeued"]
    assert (made.after.phase, made.after.revision, made.after.attempt) == (Phase.QUEUED, 8, 2)


def test_users_see_queued_and_placed_as_pending():
    assert [state_word(phase) for phase in Phase] == ["PENDING", "PENDING", "STARTING", "RUNNING", "STOPPING", "LOST", "ENDED"]
    assert a_session(phase=Phase.PLACED).state == "PENDING"


def test_gpus_are_held_from_being_placed_to_the_end_also_by_one_whose_node_is_silent():
    holding = {phase for phase in Phase if a_session(phase=phase).holds_gpus}
    assert holding == set(Phase) - {Phase.QUEUED, Phase.ENDED}
