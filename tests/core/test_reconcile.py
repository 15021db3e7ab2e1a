"""Reconcile: one pass gives the right orders, and passes repeated come to rest with nothing lost."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.cluster import Policy
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reconcile import Deed, back_with, leftovers, node_silent, order_for, refused
from gpufairy.core.session import Outcome, Seat, Session, SessionKind, Wanted
from gpufairy.core.steps import send_back, swap
from gpufairy.core.workload import Workload, WorkloadState, workload_id
from scenes import NOW, a_session

POLICY = Policy()
SEAT = Seat("gpu01", 1000, 1)


def in_phase(phase: Phase, **fields) -> Session:
    return a_session(phase=phase, since=NOW, seat=None if phase is Phase.QUEUED else SEAT, placed_at=NOW, **fields)


def seen(session: Session, state=WorkloadState.RUNNING, code=None) -> Workload:
    return Workload(workload_id(session), "gpu01", state, code)


def order(session, workload=None, later=timedelta(0), asked=True):
    """`asked`: to leave, by this server, if it is to."""
    return order_for(session, workload, NOW + later, POLICY, {workload_id(session): NOW} if asked else {})


def test_a_placed_session_is_written_down_as_starting_and_then_launched():
    made = order(in_phase(Phase.PLACED))
    assert (made.change.after.phase, made.deed, made.session) == (Phase.STARTING, Deed.LAUNCH, made.change.after)


def test_a_launch_whose_answer_was_lost_is_done_again():
    made = order(in_phase(Phase.STARTING))
    assert (made.change, made.deed) == (None, Deed.LAUNCH)


@pytest.mark.parametrize(("code", "outcome"), [(0, Outcome.DONE), (3, Outcome.FAILED), (137, Outcome.FAILED), (None, Outcome.LOST)])
@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING, Phase.LOST])
def test_an_exit_ends_it_with_its_code(phase, code, outcome):
    session = in_phase(phase)
    made = order(session, seen(session, WorkloadState.EXITED, code))
    assert (made.change.after.outcome, made.change.after.exit_code, made.deed) == (outcome, code, Deed.CLEAR)


def test_a_failure_is_tried_again_as_often_as_asked():
    session = in_phase(Phase.RUNNING, retries=1)
    again = order(session, seen(session, WorkloadState.EXITED, 1)).change.after
    assert (again.phase, again.attempt, again.seat) == (Phase.QUEUED, 2, None)
    second = replace(session, attempt=2)
    assert order(second, seen(second, WorkloadState.EXITED, 1)).change.after.outcome is Outcome.FAILED


def test_one_told_to_stop_is_not_tried_again():
    session = in_phase(Phase.RUNNING, retries=5, wanted=Wanted.STOP)
    assert order(session, seen(session, WorkloadState.EXITED, 1)).change.after.phase is Phase.ENDED


def test_a_stop_is_asked_once_and_enforced_after_the_grace():
    session = in_phase(Phase.RUNNING, wanted=Wanted.STOP)
    asked = order(session, seen(session))
    assert (asked.change.after.phase, asked.deed, asked.grace) == (Phase.STOPPING, Deed.STOP, POLICY.stop_grace)
    stopping = asked.change.after
    assert order(stopping, seen(session), later=timedelta(seconds=5)) is None
    killed = order(stopping, seen(session), later=timedelta(seconds=11))
    assert (killed.change, killed.deed, killed.grace) == (None, Deed.STOP, timedelta(0))


def test_who_was_told_by_a_server_that_is_no_more_is_asked_again_before_it_is_killed():
    stopping = in_phase(Phase.STOPPING)
    again = order(stopping, seen(stopping), later=timedelta(hours=1), asked=False)
    assert (again.change, again.deed, again.grace) == (None, Deed.STOP, POLICY.stop_grace)


def test_gpus_are_freed_only_when_the_engine_no_longer_lists_it_as_alive():
    stopping = in_phase(Phase.STOPPING, wanted=Wanted.STOP, stop_why="stopped by ann")
    late = order(stopping, seen(stopping), later=timedelta(hours=1)).change.after
    assert (late.phase, late.seat, "cannot be ended" in late.why) == (Phase.STOPPING, stopping.seat, True)
    assert order(late, seen(late), later=timedelta(hours=2)).change is None
    gone = order(stopping, None).change.after
    assert (gone.phase, gone.outcome, gone.why) == (Phase.ENDED, Outcome.STOPPED, "stopped by ann")


def test_silence_ends_nothing():
    stopping = in_phase(Phase.STOPPING, wanted=Wanted.STOP)
    sessions = [*(in_phase(phase) for phase in (Phase.PLACED, Phase.STARTING, Phase.RUNNING, Phase.LOST)), stopping]
    after = [made.change.after.phase for made in node_silent(sessions, NOW, "no answer")]
    assert after == [Phase.QUEUED, Phase.LOST, Phase.LOST, Phase.LOST]


def test_who_was_sent_back_is_not_lost_on_the_way_and_counts_once():
    sent = send_back(in_phase(Phase.RUNNING), NOW, "for ann").after
    assert node_silent([sent], NOW, "no answer") == []
    back = order(sent, None).change.after
    assert (back.phase, back.attempt, back.preempted) == (Phase.QUEUED, 2, 1)


def test_of_a_gang_of_which_one_is_refused_all_go_back_who_were_placed_with_it():
    refused_one, placed, running, stopped = (
        in_phase(phase, gang="g", gang_size=5) for phase in (Phase.STARTING, Phase.PLACED, Phase.RUNNING, Phase.STARTING)
    )
    older = replace(in_phase(Phase.RUNNING, gang="g", gang_size=5), placed_at=NOW - timedelta(hours=1))
    gang = [refused_one, placed, running, replace(stopped, wanted=Wanted.STOP), older, in_phase(Phase.RUNNING)]
    orders = back_with(refused(refused_one, NOW, "no such image", POLICY), gang, NOW, "no such image", POLICY)
    after = [made.change.after for made in orders]
    assert [one.id for one in after] == [placed.id, running.id]
    assert [(one.phase, one.refusals, one.wanted) for one in after] == [(Phase.QUEUED, 0, Wanted.RUN), (Phase.STOPPING, 0, Wanted.RUN)]
    assert [made.deed for made in orders] == [None, Deed.STOP]
    assert "no such image" in after[0].why


def test_a_lost_session_that_is_found_running_is_adopted_with_the_same_attempt():
    session = in_phase(Phase.LOST)
    back = order(session, seen(session)).change.after
    assert (back.phase, back.attempt) == (Phase.STARTING, session.attempt)


def test_a_workload_that_vanished_ends_as_lost_not_as_done():
    assert order(in_phase(Phase.RUNNING), None).change.after.outcome is Outcome.LOST


def test_a_session_the_engine_keeps_refusing_is_given_up_in_words():
    session = in_phase(Phase.STARTING, refusals=POLICY.most_refusals - 1)
    after = refused(session, NOW, "no such image", POLICY).after
    assert (after.phase, after.wanted, after.stop_outcome) == (Phase.QUEUED, Wanted.STOP, Outcome.FAILED)
    assert after.stop_why == "refused 5 times: no such image"
    assert refused(in_phase(Phase.STARTING), NOW, "busy", POLICY).after.wanted is Wanted.RUN
    crowded_out = refused(session, NOW, "its place is taken", POLICY, counts=False).after
    assert (crowded_out.phase, crowded_out.wanted, crowded_out.refusals) == (Phase.QUEUED, Wanted.RUN, session.refusals)


def swapping(phase: Phase, **fields) -> Session:
    session = in_phase(phase, started_at=NOW, swapped_from="kept:1", **fields)
    return replace(session, request=replace(session.request, image="new:2"))


def test_a_swap_keeps_the_seat_and_starts_the_next_attempt_when_the_old_one_is_gone():
    made = swap(in_phase(Phase.RUNNING, started_at=NOW), "new:2", "kept:1", NOW, "kim").after
    assert (made.phase, made.request.image, made.swapped_from, made.seat) == (Phase.STOPPING, "new:2", "kept:1", SEAT)
    assert order(made, seen(made)) is None
    after = order(made, seen(made, WorkloadState.EXITED, 143)).change.after
    assert (after.phase, after.attempt, after.seat, after.started_at) == (Phase.STARTING, 2, SEAT, None)


def test_a_swap_to_an_image_that_is_refused_goes_back_to_what_was_kept():
    after = refused(swapping(Phase.STARTING), NOW, "no such image", POLICY).after
    assert (after.phase, after.request.image, after.swapped_from, after.seat) == (Phase.STARTING, "kept:1", None, SEAT)
    assert "no such image" in after.why


@pytest.mark.parametrize(
    ("kind", "code", "ran_s", "phase", "image"),
    [
        (SessionKind.INTERACTIVE, 1, 1, Phase.STARTING, "kept:1"), (SessionKind.INTERACTIVE, 1, 300, Phase.ENDED, "new:2"),
        (SessionKind.BATCH, 127, 1, Phase.STARTING, "kept:1"), (SessionKind.BATCH, 1, 1, Phase.ENDED, "new:2"),
        (SessionKind.BATCH, 0, 1, Phase.ENDED, "new:2"),
    ],
)  # fmt: skip
def test_a_swap_is_undone_only_if_the_new_image_does_not_begin(kind, code, ran_s, phase, image):
    session = swapping(Phase.RUNNING, kind=kind)
    after = order(session, seen(session, WorkloadState.EXITED, code), timedelta(seconds=ran_s)).change.after
    assert (after.phase, after.request.image) == (phase, image)


def test_once_the_new_image_has_run_for_a_while_nobody_goes_back():
    session = swapping(Phase.RUNNING)
    assert order(session, seen(session), timedelta(seconds=30)).change.after.swapped_from is None


def test_a_swapped_session_that_was_lost_and_is_over_ends():
    session = swapping(Phase.LOST)
    assert order(session, seen(session, WorkloadState.EXITED, 1), timedelta(seconds=1)).change.after.phase is Phase.ENDED


def test_a_session_told_to_stop_in_the_middle_of_a_swap_ends():
    session = swapping(Phase.STOPPING, wanted=Wanted.STOP)
    assert order(session, seen(session, WorkloadState.EXITED, 143)).change.after.phase is Phase.ENDED


def test_leftovers_are_cleaned_up_and_strangers_are_not_killed():
    live = in_phase(Phase.RUNNING, attempt=2)
    old, ended, unknown = seen(replace(live, attempt=1)), seen(a_session("ended")), seen(a_session("unknown"))
    orders, adoptable = leftovers([old, ended, unknown, seen(live)], [live], [ended.id.session_id])
    assert [(made.deed, made.workload) for made in orders] == [(Deed.STOP, old.id), (Deed.STOP, ended.id)]
    assert adoptable == [unknown]


class World:
    """A store and an engine in their simplest form, and somebody who breaks things."""

    def __init__(self, session: Session) -> None:
        self.session, self.workloads, self.launched, self.now = session, {}, [], NOW
        self.asked = {}

    def look(self) -> bool:
        """One pass; False when it had nothing to do."""
        made = order_for(self.session, self.workloads.get(workload_id(self.session)), self.now, POLICY, self.asked)
        if made is None:
            return False
        if made.change is not None:
            assert made.change.before == self.session
            self.session = made.change.after
        match made.deed:
            case Deed.LAUNCH if workload_id(made.session) not in self.workloads:
                self.launched.append(workload_id(made.session))
                self.workloads[workload_id(made.session)] = seen(made.session)
            case Deed.STOP if made.grace:
                self.asked[made.workload] = self.now
            case Deed.STOP if made.workload in self.workloads:
                self.exit(137)
            case Deed.CLEAR:
                self.workloads.pop(made.workload, None)
        return True

    def exit(self, code: int) -> None:
        key = workload_id(self.session)
        if key in self.workloads:
            self.workloads[key] = seen(self.session, WorkloadState.EXITED, code)

    def place(self) -> None:
        if self.session.phase is Phase.QUEUED and self.session.wanted is Wanted.RUN:
            self.session = replace(self.session, phase=Phase.PLACED, seat=SEAT, revision=self.session.revision + 1)

    def suffer(self, what: str) -> None:
        match what:
            case "exit 0":
                self.exit(0)
            case "exit 1":
                self.exit(1)
            case "stop":
                self.session = replace(self.session, wanted=Wanted.STOP)
            case "silence":
                for made in node_silent([self.session], self.now, "no answer"):
                    self.session = made.change.after
            case "place":
                self.place()
            case "pass":
                self.look()
        self.now += timedelta(seconds=3)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["exit 0", "exit 1", "stop", "silence", "place", "pass", "pass"]), max_size=40), st.integers(0, 2))
def test_whatever_happens_no_attempt_runs_twice_and_a_stop_always_comes_to_its_end(happenings, retries):
    world = World(a_session(retries=retries))
    for what in happenings:
        ended = world.session if world.session.phase is Phase.ENDED else None
        world.suffer(what)
        assert ended is None or replace(world.session, wanted=ended.wanted) == ended
        assert len(world.launched) == len(set(world.launched))
        if world.session.phase is Phase.QUEUED and world.session.attempt > 1:
            assert all(not workload.alive for workload in world.workloads.values())
    world.suffer("stop")
    for _ in range(20):
        world.look()
        world.now += timedelta(seconds=6)
    assert world.session.phase is Phase.ENDED
    assert not any(workload.alive for workload in world.workloads.values())
