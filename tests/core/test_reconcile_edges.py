"""Reconcile, at its edges: how long is waited, who is left alone, and what is found after a silence or a restore."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.cluster import Policy
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reconcile import (
    ADOPTED,
    LATE,
    STUCK,
    Deed,
    adopted,
    ahead_of_their_rows,
    back_with,
    is_stuck,
    leftovers,
    may_retry,
    node_silent,
    order_for,
    reconcile,
    refused,
    turned_away,
)
from gpufairy.core.session import Outcome, Seat, SessionKind, Wanted
from gpufairy.core.workload import Workload, WorkloadId, WorkloadState, workload_id
from scenes import NOW, a_session

POLICY = Policy(stop_grace=timedelta(seconds=10), silent_after=timedelta(seconds=60))
SEAT = Seat("gpu01", 1000, 1)
SECOND = timedelta(seconds=1)


def in_phase(phase, **fields):
    seat = None if phase is Phase.QUEUED else SEAT
    return a_session(
        **{"phase": phase, "since": NOW, "seat": seat, "placed_at": NOW, "started_at": NOW, **fields}
    )


def seen(session, state=WorkloadState.RUNNING, code=None, **fields):
    return Workload(workload_id(session), "gpu01", state, code, **fields)


def gone(session, code=None, **fields):
    return seen(session, WorkloadState.EXITED, code, **fields)


def order(session, workload=None, later=timedelta(0), asked=True):
    return order_for(session, workload, NOW + later, POLICY, {workload_id(session): NOW} if asked else {})


def test_a_pass_gives_orders_to_those_who_need_one_with_what_is_seen_of_each():
    placed, fine, over = in_phase(Phase.PLACED), in_phase(Phase.RUNNING), in_phase(Phase.RUNNING)
    orders = reconcile([placed, fine, over], [seen(fine), gone(over, 0)], NOW, POLICY, {})
    assert [(made.change.before.id, made.deed) for made in orders] == [
        (placed.id, Deed.LAUNCH),
        (over.id, Deed.CLEAR),
    ]


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.PLACED])
def test_one_that_has_not_begun_ends_at_once_when_it_is_to_stop(phase):
    session = in_phase(phase, wanted=Wanted.STOP, stop_outcome=Outcome.STOPPED, stop_why="by ann")
    made = order(session)
    assert (made.change.after.phase, made.change.after.why, made.deed) == (Phase.ENDED, "by ann", None)


def test_one_that_waits_is_nobodys_business_here():
    assert order(in_phase(Phase.QUEUED)) is None


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_one_that_is_to_stop_is_asked_with_its_grace(phase):
    session = in_phase(phase, wanted=Wanted.STOP, stop_why="by ann")
    made = order(session, seen(session))
    assert (made.deed, made.workload, made.grace) == (Deed.STOP, workload_id(session), timedelta(seconds=10))
    assert (made.change.after.phase, made.change.after.why) == (Phase.STOPPING, "by ann")


def test_one_that_starts_is_running_when_the_engine_says_so():
    session = in_phase(Phase.STARTING, started_at=None)
    after = order(session, seen(session)).change.after
    assert (after.phase, after.why, after.started_at) == (Phase.RUNNING, "running on gpu01", NOW)


def test_who_waits_for_its_start_is_told_what_the_engine_does_once():
    session = in_phase(Phase.STARTING, why="starting", revision=4)
    made = order(session, seen(session, WorkloadState.STARTING, why="fetching the image"))
    assert (made.change.after.why, made.change.after.revision, made.change.events) == (
        "fetching the image",
        5,
        (),
    )
    assert order(made.change.after, seen(session, WorkloadState.STARTING, why="fetching the image")) is None
    assert order(session, seen(session, WorkloadState.STARTING)) is None


@pytest.mark.parametrize(("late_s", "silent"), [(60, False), (61, True)])
def test_a_node_that_gives_no_answer_is_waited_for_before_its_sessions_are_lost(late_s, silent):
    session = in_phase(Phase.RUNNING)
    made = order(session, seen(session, silent_since=NOW), timedelta(seconds=late_s))
    assert (made is not None) is silent
    if silent:
        assert (made.change.after.phase, made.deed) == (Phase.LOST, None)
        assert made.change.after.why == "gpu01 gives no answer since 12:00:00 UTC"


def test_one_that_is_lost_already_is_not_lost_again_while_its_node_is_silent():
    session = in_phase(Phase.LOST)
    assert order(session, seen(session, silent_since=NOW), timedelta(hours=1)) is None


def test_one_that_is_over_is_over_also_on_a_silent_node():
    session = in_phase(Phase.RUNNING)
    made = order(session, gone(session, 0, silent_since=NOW), timedelta(hours=1))
    assert made.change.after.outcome is Outcome.DONE


@pytest.mark.parametrize(
    ("phase", "wanted", "lost"),
    [
        (Phase.PLACED, Wanted.RUN, True), (Phase.STARTING, Wanted.RUN, True), (Phase.RUNNING, Wanted.RUN, True),
        (Phase.STOPPING, Wanted.STOP, True), (Phase.STOPPING, Wanted.RUN, False), (Phase.QUEUED, Wanted.RUN, False),
        (Phase.LOST, Wanted.RUN, False), (Phase.ENDED, Wanted.RUN, False),
    ],
)  # fmt: skip
def test_a_silent_node_takes_those_who_may_run_there_and_not_those_who_come_back(phase, wanted, lost):
    assert bool(node_silent([in_phase(phase, wanted=wanted)], NOW, "silent")) is lost


def test_what_ended_is_told_in_the_engines_words_else_by_its_code():
    session = in_phase(Phase.RUNNING)
    assert order(session, gone(session, 137, why="out of memory")).change.after.why == "out of memory"
    assert order(session, gone(session, 3)).change.after.why == "exit code 3"
    assert order(session, gone(session)).change.after.why == "ended, exit code not known"
    assert order(session, gone(session, 0)).change.after.why == "done, exit code 0"


def test_a_failure_that_is_tried_again_says_which_try_of_how_many():
    session = in_phase(Phase.RUNNING, retries=3, attempt=3, preempted=1)
    assert order(session, gone(session, 1)).change.after.why == "exit code 1; try 3 of 4"


@pytest.mark.parametrize(
    ("attempt", "preempted", "again"), [(2, 0, True), (3, 0, False), (3, 1, True), (4, 1, False)]
)
def test_only_what_went_wrong_by_itself_uses_up_a_try(attempt, preempted, again):
    session = in_phase(Phase.RUNNING, retries=2, attempt=attempt, preempted=preempted)
    assert may_retry(session) is again
    assert not may_retry(replace(session, wanted=Wanted.STOP))


def test_one_that_was_over_before_anybody_saw_it_run_has_run_all_the_same():
    session = in_phase(Phase.STARTING, started_at=None)
    after = order(session, gone(session, 0, started_at=NOW - SECOND)).change.after
    assert (after.started_at, after.phase) == (NOW - SECOND, Phase.ENDED)
    seen_before = in_phase(Phase.RUNNING, started_at=NOW)
    assert order(seen_before, gone(seen_before, 0, started_at=NOW - SECOND)).change.after.started_at == NOW


def swapping(phase, **fields):
    session = in_phase(phase, swapped_from="kept:1", **fields)
    return replace(session, request=replace(session.request, image="new:2"))


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_command_that_could_not_even_begin_undoes_a_swap(code):
    session = swapping(Phase.RUNNING)
    after = order(session, gone(session, code), SECOND).change.after
    assert (after.phase, after.request.image, after.why) == (
        Phase.STARTING, "kept:1", f"new:2 did not start (exit code {code}), so it goes back to what it was"
    )  # fmt: skip


@pytest.mark.parametrize("code", [1, 124, 128])
def test_a_command_that_began_and_failed_undoes_none(code):
    session = swapping(Phase.RUNNING)
    assert order(session, gone(session, code), SECOND).change.after.phase is Phase.ENDED


@pytest.mark.parametrize(("ran_s", "phase"), [(19, Phase.STARTING), (20, Phase.ENDED)])
def test_a_swap_is_undone_within_twenty_seconds(ran_s, phase):
    session = swapping(Phase.RUNNING, kind=SessionKind.INTERACTIVE)
    assert order(session, gone(session, 1), timedelta(seconds=ran_s)).change.after.phase is phase


@pytest.mark.parametrize(("ran_s", "is_settled"), [(19, False), (20, True)])
def test_a_swap_is_settled_after_twenty_seconds(ran_s, is_settled):
    session = swapping(Phase.RUNNING)
    made = order(session, seen(session), timedelta(seconds=ran_s))
    assert (made is not None) is is_settled
    assert made is None or (made.change.after.swapped_from, made.deed) == (None, None)


def test_a_swap_that_is_over_while_it_starts_is_undone_unless_it_is_to_stop_or_was_done():
    session = swapping(Phase.STARTING)
    assert order(session, gone(session, 1)).change.after.request.image == "kept:1"
    assert order(session, gone(session, 0)).change.after.outcome is Outcome.DONE
    stop = replace(session, wanted=Wanted.STOP)
    assert order(stop, gone(stop, 1)).change.after.phase is Phase.ENDED


def test_a_swapped_one_that_is_to_stop_is_asked_to_and_not_settled():
    session = swapping(Phase.RUNNING, wanted=Wanted.STOP)
    assert order(session, seen(session), timedelta(seconds=30)).deed is Deed.STOP


def test_one_that_vanished_is_tried_again_where_it_may_and_says_why():
    again = order(in_phase(Phase.RUNNING, retries=1)).change.after
    assert (again.phase, again.why) == (
        Phase.QUEUED,
        "its workload is gone and left no exit code: removed from outside",
    )
    assert order(in_phase(Phase.RUNNING, retries=1, wanted=Wanted.STOP)).change.after.outcome is Outcome.LOST


@pytest.mark.parametrize(("late_s", "kills"), [(10, False), (11, True)])
def test_whoever_was_asked_to_leave_has_its_grace_and_is_killed_then(late_s, kills):
    session = in_phase(Phase.STOPPING, wanted=Wanted.STOP)
    made = order(session, seen(session), timedelta(seconds=late_s))
    assert (made is not None) is kills
    assert made is None or (made.deed, made.grace, made.change) == (Deed.STOP, timedelta(0), None)


@pytest.mark.parametrize(("late_s", "stuck"), [(25, False), (26, True)])
def test_one_that_is_there_long_after_it_was_killed_is_called_stuck_once(late_s, stuck):
    session = in_phase(Phase.STOPPING, wanted=Wanted.STOP, revision=4)
    made = order(session, seen(session), timedelta(seconds=late_s))
    assert (made.change is not None) is stuck
    if stuck:
        assert (made.change.after.why, made.change.after.revision, made.deed) == (STUCK, 5, Deed.STOP)
        assert order(made.change.after, seen(session), timedelta(seconds=late_s + 1)).change is None


def test_only_one_that_this_server_asked_to_leave_can_be_stuck():
    session = in_phase(Phase.STOPPING, wanted=Wanted.STOP)
    late, asked = NOW + timedelta(minutes=9), {workload_id(session): NOW}
    assert is_stuck(session, late, POLICY, asked)
    assert not is_stuck(session, late, POLICY, {})
    assert not is_stuck(replace(session, phase=Phase.RUNNING), late, POLICY, asked)


def test_one_that_was_stuck_and_left_in_the_end_says_that_it_was_late():
    session = in_phase(Phase.STOPPING, why=STUCK)
    assert order(session, gone(session)).change.after.why == LATE
    other = in_phase(Phase.STOPPING, why="for kim")
    assert order(other, gone(other)).change.after.why == "for kim"


def test_one_that_left_as_it_was_told_ends_with_what_was_wanted_and_its_code():
    session = in_phase(Phase.STOPPING, wanted=Wanted.STOP, stop_outcome=Outcome.EVICTED, stop_why="")
    made = order(session, gone(session, 143))
    after = made.change.after
    assert (after.outcome, after.why, after.exit_code) == (Outcome.EVICTED, "stopped", 143)
    assert (made.deed, made.workload) == (Deed.CLEAR, workload_id(session))
    assert order(session).change.after.exit_code is None


def test_a_node_that_came_back_without_a_session_tries_it_again_or_ends_it():
    why = "its node came back without it"
    again = order(in_phase(Phase.LOST, retries=1)).change.after
    assert (again.phase, again.why) == (Phase.QUEUED, why)
    lost = order(in_phase(Phase.LOST)).change.after
    assert (lost.phase, lost.outcome, lost.why) == (Phase.ENDED, Outcome.LOST, why)
    stop = order(in_phase(Phase.LOST, wanted=Wanted.STOP, retries=1, stop_why="by ann")).change.after
    assert (stop.phase, stop.outcome, stop.why) == (Phase.ENDED, Outcome.STOPPED, "by ann")


@pytest.mark.parametrize(
    ("phase", "wanted", "is_refused", "back"),
    [
        (Phase.STARTING, Wanted.RUN, True, True), (Phase.STARTING, Wanted.RUN, False, False),
        (Phase.STARTING, Wanted.STOP, True, False), (Phase.RUNNING, Wanted.RUN, True, False),
    ],
)  # fmt: skip
def test_only_one_that_starts_and_is_to_run_is_turned_away(phase, wanted, is_refused, back):
    session, other = in_phase(phase, wanted=wanted), in_phase(Phase.STARTING)
    workload = gone(session, refused=is_refused)
    assert turned_away([session, other], [workload, seen(other)]) == ([(session, workload)] if back else [])


@pytest.mark.parametrize(("refusals", "given_up"), [(3, False), (4, True)])
def test_a_session_is_given_up_after_five_refusals_that_count(refusals, given_up):
    after = refused(in_phase(Phase.STARTING, refusals=refusals), NOW, "no", Policy(most_refusals=5)).after
    assert (after.wanted is Wanted.STOP, after.refusals) == (given_up, refusals + 1)


def test_a_swapped_one_that_is_refused_and_to_stop_goes_nowhere_else_first():
    after = refused(swapping(Phase.STARTING, wanted=Wanted.STOP), NOW, "no", POLICY).after
    assert (after.phase, after.request.image) == (Phase.QUEUED, "new:2")


def gang_of(*phases, **fields):
    return [in_phase(phase, gang="g", **fields) for phase in phases]


def test_of_a_gang_the_others_who_were_placed_with_it_go_back_each_in_its_way():
    first, placed, starts, runs = gang_of(Phase.STARTING, Phase.PLACED, Phase.STARTING, Phase.RUNNING)
    made = refused(first, NOW, "no such image", POLICY)
    orders = back_with(made, [first, placed, starts, runs], NOW, "no such image", POLICY)
    assert [(one.change.before.id, one.change.after.phase, one.deed) for one in orders] == [
        (placed.id, Phase.QUEUED, None), (starts.id, Phase.STOPPING, Deed.STOP), (runs.id, Phase.STOPPING, Deed.STOP),
    ]  # fmt: skip
    assert orders[1].grace == POLICY.stop_grace
    assert orders[0].change.after.why.startswith(
        f"{first.name}, which starts together with it, could not be launched"
    )


@pytest.mark.parametrize(
    "fields",
    [{"gang": "other"}, {"placed_at": NOW - SECOND}, {"wanted": Wanted.STOP}, {"phase": Phase.STOPPING}],
)
def test_nobody_else_goes_back_with_it(fields):
    (first,) = gang_of(Phase.STARTING)
    mate = in_phase(**{"phase": Phase.PLACED, "gang": "g", **fields})
    assert back_with(refused(first, NOW, "no", POLICY), [mate], NOW, "no", POLICY) == []


def test_a_swapped_one_goes_back_to_its_own_image_alone():
    first = swapping(Phase.STARTING, gang="g")
    (mate,) = gang_of(Phase.RUNNING)
    assert back_with(refused(first, NOW, "no", POLICY), [mate], NOW, "no", POLICY) == []


def labelled(session, attempt=None, state=WorkloadState.RUNNING, **label):
    found = WorkloadId(session.id, attempt or session.attempt)
    kept = replace(session, **{"seat": SEAT, "name": "as labelled", **label})
    return Workload(found, "gpu01", state, session=kept, started_at=NOW - SECOND)


@pytest.mark.parametrize(
    ("phase", "row_attempt", "attempt", "taken"),
    [
        (Phase.QUEUED, 1, 1, True), (Phase.PLACED, 1, 1, True), (Phase.RUNNING, 1, 1, False), (Phase.RUNNING, 1, 2, True),
        (Phase.QUEUED, 2, 1, False), (Phase.RUNNING, 2, 1, False),
    ],
)  # fmt: skip
def test_what_runs_is_believed_where_its_row_is_older(phase, row_attempt, attempt, taken):
    row = in_phase(phase, attempt=row_attempt)
    assert bool(ahead_of_their_rows([row], [labelled(row, attempt)], NOW)) is taken


def test_of_one_whose_row_is_older_name_number_and_what_is_wanted_stay():
    row = in_phase(
        Phase.QUEUED, revision=4, wanted=Wanted.STOP, stop_outcome=Outcome.EVICTED, stop_why="by ann"
    )
    (made,) = ahead_of_their_rows([row], [labelled(row, number=999)], NOW)
    after = made.after
    assert (after.name, after.number, after.revision, after.phase) == (row.name, row.number, 5, Phase.RUNNING)
    assert (after.wanted, after.stop_outcome, after.stop_why) == (Wanted.STOP, Outcome.EVICTED, "by ann")
    assert [(event.what, event.why) for event in made.events] == [("adopted", ADOPTED)]


def test_a_workload_without_a_row_a_label_or_a_seat_is_not_believed():
    row = in_phase(Phase.QUEUED)
    unlabelled = replace(labelled(row), session=None)
    assert (
        ahead_of_their_rows(
            [row], [unlabelled, labelled(row, seat=None), labelled(in_phase(Phase.QUEUED))], NOW
        )
        == []
    )


def test_one_that_is_adopted_is_as_its_label_says_and_as_far_as_it_is():
    session = in_phase(Phase.QUEUED, placed_at=None, revision=9)
    running = adopted(labelled(session, 3), session)
    assert (running.phase, running.attempt, running.revision, running.why) == (Phase.RUNNING, 3, 1, ADOPTED)
    assert (running.started_at, running.placed_at) == (NOW - SECOND, NOW - SECOND)
    starting = adopted(labelled(session, state=WorkloadState.STARTING), replace(session, placed_at=NOW))
    assert (starting.phase, starting.started_at, starting.placed_at) == (Phase.STARTING, None, NOW)


def test_old_attempts_and_the_dead_are_cleaned_up_and_the_attempt_that_counts_is_left_alone():
    live = in_phase(Phase.RUNNING, attempt=2)
    old, now, newer = (WorkloadId(live.id, attempt) for attempt in (1, 2, 3))
    dead = Workload(WorkloadId("ended", 1), "gpu01", WorkloadState.EXITED)
    there = [Workload(one, "gpu01", WorkloadState.RUNNING) for one in (old, now, newer)]
    orders, unknown = leftovers([*there, dead], [live], ["ended"])
    assert [(made.deed, made.workload) for made in orders] == [(Deed.STOP, old), (Deed.CLEAR, dead.id)]
    assert unknown == []


def test_a_swap_that_is_undone_says_what_the_engine_said():
    session = swapping(Phase.STARTING)
    after = order(session, gone(session, 1, why="no such file")).change.after
    assert after.why == "new:2 did not start (no such file), so it goes back to what it was"
