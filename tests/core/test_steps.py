"""Steps: what each happening leaves of a session, and what is told of it. Every write is one revision."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.lifecycle import Happening, Phase
from gpufairy.core.session import IdleStep, Outcome, Seat, Wanted
from gpufairy.core.steps import (
    amend,
    can_be_sent,
    change,
    deed_event,
    end,
    gang_step,
    gpu_event,
    idle_step,
    is_deed,
    keep,
    noted,
    place,
    reclaim,
    requeue,
    reseat,
    send_back,
    settled,
    step,
    swap,
    swap_undone,
    swapped,
    want_stopped,
)
from scenes import NOW, a_session

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SEAT = Seat("gpu01", 1000, 1)


def in_phase(phase, **fields):
    given = {
        "since": NOW - HOUR,
        "seat": SEAT,
        "placed_at": NOW - HOUR,
        "revision": 7,
        "attempt": 3,
        **fields,
    }
    return a_session("otter", phase=phase, **given)


def told(made):
    return [event.what for event in made.events]


CHANGES = {
    "place": lambda: place(in_phase(Phase.QUEUED), SEAT, NOW, ""),
    "end": lambda: end(in_phase(Phase.RUNNING), Happening.EXITED, NOW, outcome=Outcome.DONE, why=""),
    "requeue": lambda: requeue(in_phase(Phase.RUNNING), NOW, ""),
    "swap": lambda: swap(in_phase(Phase.RUNNING), "new:2", "kept:1", NOW, "kim"),
    "swapped": lambda: swapped(in_phase(Phase.STOPPING), NOW),
    "swap_undone": lambda: swap_undone(in_phase(Phase.STARTING, swapped_from="kept:1"), NOW, ""),
    "settled": lambda: settled(in_phase(Phase.RUNNING)),
    "keep": lambda: keep(in_phase(Phase.RUNNING), NOW + HOUR, None, NOW, "kim"),
    "idle_step": lambda: idle_step(in_phase(Phase.RUNNING), IdleStep.LENT, NOW, "lent", ""),
    "reclaim": lambda: reclaim(in_phase(Phase.RUNNING), NOW, ""),
    "send_back": lambda: send_back(in_phase(Phase.RUNNING), NOW, ""),
    "noted": lambda: noted(in_phase(Phase.RUNNING), "told", NOW, ""),
    "want_stopped": lambda: want_stopped(in_phase(Phase.RUNNING), NOW, outcome=Outcome.STOPPED, why=""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_one_revision(name):
    made = CHANGES[name]()
    assert (made.before.revision, made.after.revision) == (7, 8)


def test_back_in_the_queue_it_has_no_seat_no_start_and_is_at_the_top_of_the_ladder():
    session = in_phase(Phase.STOPPING, started_at=NOW - HOUR, idle_step=IdleStep.LENT, idle_since=NOW - HOUR)
    after = step(session, Happening.REQUEUED, NOW, "room was made")
    assert (after.seat, after.placed_at, after.started_at) == (None, None, None)
    assert (after.idle_step, after.idle_since, after.since, after.why) == (
        IdleStep.NONE,
        None,
        NOW,
        "room was made",
    )


def test_it_has_started_when_it_runs_for_the_first_time_and_that_ends_a_row_of_refusals():
    first = step(in_phase(Phase.STARTING, refusals=2), Happening.READY, NOW)
    assert (first.started_at, first.refusals) == (NOW, 0)
    again = step(in_phase(Phase.STARTING, started_at=NOW - HOUR, refusals=2), Happening.READY, NOW)
    assert (again.started_at, again.refusals, again.ended_at) == (NOW - HOUR, 2, None)


def test_it_has_ended_when_it_ended_and_keeps_the_seat_it_had():
    after = step(in_phase(Phase.RUNNING, started_at=NOW - HOUR), Happening.EXITED, NOW)
    assert (after.ended_at, after.seat, after.started_at) == (NOW, SEAT, NOW - HOUR)


def test_while_it_goes_on_nothing_is_cleared():
    after = step(in_phase(Phase.RUNNING, started_at=NOW - HOUR), Happening.TOLD_TO_STOP, NOW)
    assert (after.seat, after.started_at, after.ended_at) == (SEAT, NOW - HOUR, None)


def test_one_that_is_placed_holds_its_seat_from_then_on():
    made = place(in_phase(Phase.QUEUED, seat=None, placed_at=None), SEAT, NOW, "its turn")
    assert (made.after.seat, made.after.placed_at, made.after.why) == (SEAT, NOW, "its turn")
    assert told(made) == ["placed"]


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_one_that_runs_is_told_to_stop_before_it_is_queued_again_in_one_write(phase):
    made = requeue(in_phase(phase, swapped_from="kept:1"), NOW, "exit code 1")
    assert told(made) == ["told_to_stop", "requeued"]
    assert (made.after.phase, made.after.attempt, made.after.swapped_from) == (Phase.QUEUED, 4, None)


@pytest.mark.parametrize("phase", [Phase.STOPPING, Phase.LOST])
def test_one_that_is_leaving_or_lost_is_queued_again_at_once(phase):
    assert told(requeue(in_phase(phase), NOW, "")) == ["requeued"]


def test_a_swap_is_told_with_who_asked_for_it_and_what_is_lost():
    made = swap(in_phase(Phase.RUNNING), "new:2", "kept:1", NOW, "kim", lost="/tmp is not kept")
    assert (made.after.why, made.after.phase) == ("swapped to new:2 by kim; /tmp is not kept", Phase.STOPPING)
    assert [event.actor for event in made.events] == ["kim"]
    assert swap(in_phase(Phase.RUNNING), "new:2", "kept:1", NOW, "kim").after.why == "swapped to new:2 by kim"


def test_the_next_attempt_of_a_swap_starts_in_the_same_seat_with_nothing_against_it():
    after = swapped(
        in_phase(Phase.STOPPING, started_at=NOW - HOUR, refusals=3, swapped_from="kept:1"), NOW
    ).after
    assert (after.phase, after.attempt, after.started_at, after.refusals) == (Phase.STARTING, 4, None, 0)
    assert (after.seat, after.swapped_from) == (SEAT, "kept:1")


def test_a_swap_that_failed_goes_back_to_the_image_that_was_kept():
    after = swap_undone(
        in_phase(Phase.STARTING, swapped_from="kept:1", refusals=3), NOW, "no such image"
    ).after
    assert (after.request.image, after.swapped_from, after.attempt) == ("kept:1", None, 4)
    assert (after.started_at, after.refusals, after.phase) == (None, 0, Phase.STARTING)


def test_a_swap_that_worked_is_settled_without_a_word():
    made = settled(in_phase(Phase.RUNNING, swapped_from="kept:1"))
    assert (made.after.swapped_from, made.events) == (None, ())


def test_keeping_never_shortens_what_was_kept_before():
    long = in_phase(Phase.RUNNING, kept_until=NOW + 5 * HOUR)
    assert keep(long, NOW + HOUR, None, NOW, "kim").after.kept_until == NOW + 5 * HOUR
    assert keep(long, NOW + 9 * HOUR, None, NOW, "kim").after.kept_until == NOW + 9 * HOUR


def test_who_keeps_is_told_until_when_it_may_run_where_there_is_a_limit():
    session = in_phase(Phase.RUNNING, started_at=NOW)
    (event,) = keep(session, NOW + HOUR, 3 * HOUR, NOW, "kim").events
    assert (event.what, event.why, event.actor) == ("kept", "may run until 15 Nov 15:00 UTC", "kim")
    (event,) = keep(session, NOW + HOUR, None, NOW, "kim").events
    assert event.why == "kept until 15 Nov 13:00 UTC by kim"


def test_keeping_one_that_lends_its_gpus_says_that_they_are_its_own_again():
    lent = in_phase(Phase.RUNNING, idle_step=IdleStep.LENT, idle_since=NOW - HOUR)
    made = keep(lent, NOW + HOUR, None, NOW, "kim")
    assert made.events[0].why.endswith("; what it lent is its own again")
    assert (made.after.idle_step, made.after.idle_since) == (IdleStep.NONE, None)


def test_on_a_rung_it_is_since_now_and_at_the_top_since_no_time():
    session = in_phase(Phase.RUNNING, idle_since=NOW - HOUR)
    assert idle_step(session, IdleStep.LENT, NOW, "lent", "idle").after.idle_since == NOW
    assert idle_step(session, IdleStep.NONE, NOW, "back", "in use").after.idle_since is None


def test_another_seat_is_held_from_now_on():
    other = Seat("gpu02", 1, 1)
    made = reseat(noted(in_phase(Phase.RUNNING), "shrunk", NOW, ""), other, NOW)
    assert (made.after.seat, made.after.placed_at) == (other, NOW)


def test_one_that_is_reclaimed_is_told_before_it_is_asked_to_stop():
    made = reclaim(in_phase(Phase.RUNNING), NOW, "idle for 3 h")
    assert told(made) == ["reclaimed", "stop_wanted"]
    assert (made.after.idle_step, made.after.idle_since) == (IdleStep.STOPPED, NOW)
    assert (made.after.wanted, made.after.stop_outcome, made.after.stop_why) == (
        Wanted.STOP,
        Outcome.EVICTED,
        "idle for 3 h",
    )


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("wanted", list(Wanted))
def test_only_one_that_starts_or_runs_and_is_to_go_on_can_be_sent_back(phase, wanted):
    possible = phase in (Phase.STARTING, Phase.RUNNING) and wanted is Wanted.RUN
    assert can_be_sent(in_phase(phase, wanted=wanted)) is possible


def test_one_that_makes_room_is_told_so_and_it_counts_as_no_failure():
    made = send_back(in_phase(Phase.RUNNING, preempted=1, swapped_from="kept:1"), NOW, "kim is first in line")
    assert told(made) == ["preempted", "told_to_stop"]
    assert (made.after.preempted, made.after.swapped_from, made.after.wanted) == (2, None, Wanted.RUN)


def test_who_asked_for_a_stop_is_in_its_event():
    made = want_stopped(
        in_phase(Phase.RUNNING), NOW, outcome=Outcome.STOPPED, why="stopped by kim", actor="kim"
    )
    assert (made.after.phase, made.events[0].actor, made.events[0].phase) == (
        Phase.RUNNING,
        "kim",
        Phase.RUNNING,
    )


def test_a_gang_comes_together_and_makes_room_together_and_does_nothing_else_so():
    waiting, running = in_phase(Phase.QUEUED, gang="g"), in_phase(Phase.RUNNING, gang="g")
    assert gang_step(place(waiting, SEAT, NOW, "")) == "g"
    assert gang_step(send_back(running, NOW, "")) == "g"
    assert gang_step(noted(running, "told", NOW, "")) is None
    assert gang_step(noted(in_phase(Phase.PLACED, gang="g"), "told", NOW, "")) is None
    assert (
        gang_step(change(in_phase(Phase.PLACED, gang="g"), (Happening.LAUNCH_ORDERED, ""), now=NOW)) is None
    )
    assert gang_step(change(waiting, (Happening.TOLD_TO_STOP, ""), now=NOW)) is None
    assert gang_step(place(in_phase(Phase.QUEUED), SEAT, NOW, "")) is None


def test_amending_changes_what_comes_after_alone():
    made = amend(noted(in_phase(Phase.RUNNING), "told", NOW, ""), attempt=9)
    assert (made.before.attempt, made.after.attempt) == (3, 9)


def test_an_event_has_the_phase_and_the_attempt_afterwards():
    (event,) = end(in_phase(Phase.RUNNING), Happening.EXITED, NOW, outcome=Outcome.DONE, why="done").events
    assert (event.phase, event.attempt, event.at, event.why, event.owner) == (
        Phase.ENDED,
        3,
        NOW,
        "done",
        "ann",
    )


def test_what_people_change_is_told_apart_from_what_befalls_a_gpu_or_a_session():
    deed = deed_event("user:kim", "disabled", NOW, "", actor="ann")
    gpu = gpu_event("GPU-1", "gpu01 GPU 0", "xid", NOW, "", actor="ann")
    of_session = replace(noted(in_phase(Phase.RUNNING), "told", NOW, "").events[0], session_id="a:b")
    assert [is_deed(event) for event in (deed, gpu, of_session)] == [True, False, False]
    assert (deed.name, deed.actor, deed.owner, deed.attempt, deed.phase) == (
        "user kim",
        "ann",
        "",
        0,
        Phase.ENDED,
    )
    assert (gpu.name, gpu.actor, gpu.owner, gpu.attempt, gpu.phase) == (
        "gpu01 GPU 0",
        "ann",
        "",
        0,
        Phase.ENDED,
    )
