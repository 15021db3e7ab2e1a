"""Reclaim: idle by a window of known readings, and down the ladder one rung at a time; any use leads back to the top."""
import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.guests import guest_moves
from gpufairy.core.idle import LONGEST_GAP, Glance, glances, idle_since, watched
from gpufairy.core.ledger import hold_ended
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Sharing
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.plan import plan
from gpufairy.core.reading import GpuProcess, GpuReading
from gpufairy.core.reclaim import Ladder, Ladders, grown, is_back, next_rung, shrunk, why_not_lent, why_not_shrunk
from gpufairy.core.room import rooms
from gpufairy.core.session import IdleStep, Wanted
from gpufairy.core.share import PARTS
from gpufairy.core.steps import idle_step, keep, place, reseat
from scenes import GIB, NOW, a_cluster, a_node, a_session, seated

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
RESTS = Glance(False, 0.0, False, memory={"GPU-gpu01-0": 0})
WORKS = Glance(True, 0.0, False)
UNKNOWN = Glance(None, 0.0, False, "its driver does not answer")


@pytest.fixture
def holder():
    (session,) = seated([a_session("holder")], [a_node()])
    return session


def sample_of(session, processes=(), utilisation=0.0, cpus=0.0, typed=False, **fields):
    reading = GpuReading("GPU-gpu01-0", NOW, utilisation=utilisation, memory_used_bytes=0)
    said = (SessionReading(session.id, cpus, GIB, typed),)
    return replace(NodeSample("gpu01", NOW, 1.0, readings=(reading,), processes=tuple(processes), sessions=said), **fields)


def a_process(session_id, utilisation=0.0, memory_gib=0, active=None):
    owner = Owner("ann", KnownBy.SESSION, session_id, "holder")
    on = GpuProcess(7, "GPU-gpu01-0", None if memory_gib is None else memory_gib * GIB, utilisation)
    return ProcessReading(on, RunningProcess(7, 1, 1000, "python"), owner, active)


def found_after(session, **fields):
    seen = glances(sample_of(session, **fields), [session])[session.id]
    return watched(None, seen, NOW).active


def test_a_session_with_nothing_on_its_gpu_is_idle(holder):
    assert found_after(holder) is False
    assert found_after(holder, processes=[a_process(holder.id)]) is False


@pytest.mark.parametrize(
    "fields",
    [{"utilisation": None}, {"cpus": None}, {"typed": None}, {"readings": ()}, {"sessions": ()}, {"gpus_known": False}, {"utilisation": 0.9}],
)
def test_what_is_not_known_is_never_idle(holder, fields):
    assert found_after(holder, **fields) is None


def test_a_program_whose_use_nobody_counts_is_not_idle(holder):
    assert found_after(holder, processes=[a_process(holder.id, utilisation=None)]) is None


@pytest.mark.parametrize("owner", [Owner(container_id="abc"), Owner("root", KnownBy.ACCOUNT), Owner(known_by=KnownBy.POD)])
def test_a_program_that_may_be_its_own_makes_it_neither_idle_nor_empty(holder, owner):
    unclaimed = replace(a_process(None, utilisation=0.9, memory_gib=30), owner=owner)
    assert found_after(holder, processes=[unclaimed], utilisation=0.9, containers_known=False) is None
    seen = glances(sample_of(holder, processes=[unclaimed]), [holder])[holder.id]
    assert seen.memory == {"GPU-gpu01-0": 30 * GIB}
    at_rest = replace(a_process(None, memory_gib=0), owner=owner)
    assert found_after(holder, processes=[at_rest]) is False  # whosever it is


@pytest.mark.parametrize("fields", [{"cpus": 0.2}, {"typed": True}])
def test_cpus_and_typing_count_as_use(holder, fields):
    assert found_after(holder, **fields) is True


def test_a_program_that_computed_of_late_is_in_use_though_it_rests_now(holder):
    assert found_after(holder, processes=[a_process(holder.id, active=True)]) is True
    assert found_after(holder, processes=[a_process(holder.id, utilisation=0.3)], utilisation=0.3) is True


def test_what_a_neighbour_does_on_the_same_gpu_is_no_use_of_ones_own(holder):
    assert found_after(holder, processes=[a_process("guest", utilisation=0.9)], utilisation=0.9) is False


def watched_over(*looks, every=MINUTE):
    found, now = None, NOW
    for look in looks:
        found = watched(found, look, now) if look is not None else found
        now += every
    return found, now - every


def test_idleness_counts_from_the_first_of_an_unbroken_row():
    found, now = watched_over(RESTS, RESTS, RESTS)
    assert idle_since(found, now) == NOW
    found, now = watched_over(RESTS, WORKS, RESTS, RESTS, every=10 * MINUTE)
    assert found.active is False
    assert idle_since(found, now) == now  # ten minutes without a look: nobody knows what was between
    found, now = watched_over(WORKS, RESTS, RESTS)
    assert idle_since(found, now) == NOW + MINUTE


def test_a_moment_of_the_cpus_is_no_use_and_a_minute_of_them_is():
    spike, steady = Glance(False, 1.0, False), Glance(False, 0.2, False)
    found, _ = watched_over(RESTS, spike, RESTS, every=timedelta(seconds=1))
    assert found.active is False
    found, _ = watched_over(RESTS, *[steady] * 30, every=timedelta(seconds=1))
    assert found.active is True


def test_a_short_gap_breaks_nothing_and_a_long_one_does():
    found, now = watched_over(RESTS, UNKNOWN, RESTS, every=LONGEST_GAP / 2)
    assert idle_since(found, now) == NOW
    found, now = watched_over(RESTS, UNKNOWN, UNKNOWN, UNKNOWN, RESTS, every=LONGEST_GAP / 2)
    assert idle_since(found, now) == now
    found, now = watched_over(RESTS, UNKNOWN, every=LONGEST_GAP / 2)
    assert idle_since(found, now) is None


@given(st.lists(st.sampled_from([RESTS, WORKS, UNKNOWN, None]), max_size=60), st.integers(1, 200))
def test_who_is_called_idle_was_seen_idle_all_that_time(looks, every_s):
    found, now = watched_over(*looks, every=timedelta(seconds=every_s))
    since = idle_since(found, now)
    if since is not None:
        begin = round((since - NOW).total_seconds() / every_s)
        assert WORKS not in looks[begin:]
        known = [place for place in range(begin, len(looks)) if looks[place] is RESTS]
        assert known[0] == begin
        assert all((after - before) * every_s <= LONGEST_GAP.total_seconds() for before, after in itertools.pairwise(known))


LADDER = Ladder(idle_after=HOUR, grace=30 * MINUTE, lend=True, shrink=True, stop=True)


def idle_for(time, now=NOW):
    start = watched(None, RESTS, now - time)
    return replace(start, at=now)


def rung(session, time, ladder=LADDER, refuses=lambda _: "", now=NOW):
    found = next_rung(session, idle_for(time, now), ladder, refuses, now)
    return found and found.to


def at(session, step, ago=HOUR, why="in 30 min it is stopped"):
    return replace(session, idle_step=step, idle_since=NOW - ago, why=why)


def test_the_rungs_one_after_the_other(holder):
    assert rung(holder, 59 * MINUTE) is None
    assert rung(holder, HOUR) is IdleStep.WARNED
    assert rung(at(holder, IdleStep.WARNED, 29 * MINUTE), 2 * HOUR) is None
    assert rung(at(holder, IdleStep.WARNED), 2 * HOUR) is IdleStep.LENT
    assert rung(at(holder, IdleStep.LENT), 2 * HOUR) is IdleStep.SHRUNK
    assert rung(at(holder, IdleStep.SHRUNK), 2 * HOUR) is IdleStep.STOPPED


def test_nobody_is_stopped_who_was_told_of_something_else(holder):
    refuses = {IdleStep.LENT: "not lent: it holds 30 GiB"}.get
    ladder = Ladder(stop=True)
    warned = next_rung(holder, idle_for(HOUR), ladder, lambda _: "", NOW)
    assert "its GPUs are lent" in warned.why
    told = at(holder, IdleStep.WARNED, why=warned.why)
    again = next_rung(told, idle_for(2 * HOUR), ladder, lambda step: refuses(step, ""), NOW)
    assert (again.to, "in 30 min it is stopped" in again.why, "it holds 30 GiB" in again.why) == (IdleStep.WARNED, True, True)
    told = replace(told, why=again.why)
    assert rung(told, 2 * HOUR, ladder, lambda step: refuses(step, "")) is IdleStep.STOPPED


def test_words_name_the_next_rung_that_can_be_taken(holder):
    refuses = {IdleStep.LENT: "not lent: it holds 30 GiB"}.get
    ladder = Ladder(stop=True)
    warned = next_rung(holder, idle_for(HOUR), ladder, lambda step: refuses(step, ""), NOW)
    assert "in 30 min it is stopped" in warned.why
    lent = next_rung(at(holder, IdleStep.WARNED), idle_for(2 * HOUR), ladder, lambda _: "", NOW)
    assert (lent.to, "In 30 min it is stopped" in lent.why) == (IdleStep.LENT, True)


def test_after_a_restart_the_grace_is_waited_again_on_readings(holder):
    assert rung(at(holder, IdleStep.WARNED), 10 * MINUTE) is None


def test_rungs_that_are_off_are_skipped_and_by_default_nobody_is_stopped(holder):
    assert rung(at(holder, IdleStep.WARNED), 2 * HOUR, replace(LADDER, lend=False, shrink=False)) is IdleStep.STOPPED
    assert rung(at(holder, IdleStep.LENT), 99 * HOUR, Ladder()) is None
    assert rung(holder, 99 * HOUR, Ladder(idle_after=None)) is None


def test_what_cannot_be_done_is_left_out_and_said(holder):
    refuses = {IdleStep.LENT: "not lent: it is cut by MIG"}.get
    found = next_rung(at(holder, IdleStep.WARNED), idle_for(2 * HOUR), LADDER, lambda step: refuses(step, ""), NOW)
    assert found.to is IdleStep.SHRUNK
    assert "not lent: it is cut by MIG" in found.why
    nothing = next_rung(at(holder, IdleStep.WARNED), idle_for(2 * HOUR), Ladder(), lambda step: refuses(step, ""), NOW)
    assert (nothing.to, nothing.why) == (IdleStep.NONE, "not lent: it is cut by MIG")


def test_the_warning_says_since_when_what_comes_and_how_to_keep_it(holder):
    found = next_rung(holder, idle_for(HOUR), Ladder(), lambda _: "", NOW)
    assert "idle for 1 h, since 11:00 UTC" in found.why
    assert "in 30 min its GPUs are lent" in found.why
    assert "fairy keep holder 2h" in found.why


def test_one_that_is_kept_is_asked_for_nothing_until_then(holder):
    kept = keep(at(holder, IdleStep.LENT), NOW + HOUR, None, NOW, "ann").after
    assert (kept.idle_step, kept.idle_since) == (IdleStep.NONE, None)
    assert rung(kept, 9 * HOUR) is None
    assert rung(kept, 9 * HOUR, now=NOW + HOUR) is IdleStep.WARNED


@pytest.mark.parametrize("fields", [{"phase": Phase.STOPPING}, {"wanted": Wanted.STOP}, {"seat": None}])
def test_only_those_who_run_and_hold_gpus_are_asked(holder, fields):
    assert rung(replace(holder, **fields), 9 * HOUR) is None


def test_use_leads_back_and_not_knowing_does_not(holder):
    lent = at(holder, IdleStep.LENT)
    assert "in use again: its programs use the GPU" in is_back(lent, watched(None, WORKS, NOW), LADDER)
    assert is_back(lent, watched(None, UNKNOWN, NOW), LADDER) == ""
    assert is_back(lent, None, LADDER) == ""
    assert is_back(holder, watched(None, WORKS, NOW), LADDER) == ""
    assert is_back(lent, None, Ladder(idle_after=None)) != ""


def test_a_team_has_its_own_ladder(holder):
    ladders = Ladders(Ladder(), {"nlp": LADDER})
    assert ladders.of(replace(holder, team="nlp")) is LADDER
    assert ladders.of(replace(holder, team="vision")) == ladders.of(holder) == Ladder()


def test_only_a_gpu_that_is_nearly_empty_is_lent(holder):
    assert why_not_lent(holder, {"GPU-gpu01-0": GIB}) == ""
    assert "it holds 3 GiB" in why_not_lent(holder, {"GPU-gpu01-0": 3 * GIB})
    assert "not known" in why_not_lent(holder, {"GPU-gpu01-0": None})
    assert "not known" in why_not_lent(holder, None)
    (mig,) = seated([a_session(gpus="mig:1g.5gb")], [a_node(mig=True)])
    assert "cut by MIG" in why_not_lent(mig, {})


def seat_with(session, **fields):
    return replace(session, seat=replace(session.seat, gpus=tuple(replace(gpu, **fields) for gpu in session.seat.gpus)))


def test_shrinking_is_for_what_nothing_holds(holder):
    timed, empty = seat_with(holder, sharing=Sharing.TIME), {"GPU-gpu01-0": 0}
    assert why_not_shrunk(timed, empty, is_held=True, has_guests=False) == ""
    assert why_not_shrunk(holder, empty, is_held=False, has_guests=False) == ""
    for session, memory, guests in (
        (holder, empty, False), (timed, empty, True), (timed, {"GPU-gpu01-0": 30 * GIB}, False), (timed, None, False),
        (seat_with(timed, enforced=("memory",)), empty, False), (seat_with(timed, shrunk_from=PARTS), empty, False),
    ):  # fmt: skip
        assert why_not_shrunk(session, memory, is_held=True, has_guests=guests).startswith("not shrunk")


def test_what_is_shrunk_leaves_half_a_gpu_to_others_and_grows_back_where_nobody_took_it(holder):
    node = a_node()
    small = replace(holder, seat=shrunk(holder.seat))
    assert (small.seat.gpu_parts, small.seat.gpus[0].memory_bytes) == (PARTS // 2, 20 * GIB)
    assert rooms([node], [small])["gpu01"].gpus[0].free_parts == PARTS // 2
    assert grown(small, rooms([node], [])["gpu01"]) == holder.seat
    (other,) = seated([a_session(gpus="0.5")], [node], holding=[small])
    assert grown(small, rooms([node], [other])["gpu01"]) is None


def test_a_session_that_grows_back_is_held_apart_as_it_was(holder):
    node = a_node()
    other_way = replace(node, gpus=(replace(node.gpus[0], sharing=Sharing.TIME, held_to=("memory",)),))
    assert grown(replace(holder, seat=shrunk(holder.seat)), rooms([other_way], [])["gpu01"]) == holder.seat


def test_a_changed_seat_closes_the_hold_of_the_old_one(holder):
    made = reseat(idle_step(holder, IdleStep.SHRUNK, NOW, "shrunk", ""), shrunk(holder.seat), NOW)
    hold = hold_ended(made)
    assert (hold.seat, hold.since, hold.until) == (holder.seat, holder.placed_at, NOW)
    assert made.after.placed_at == NOW
    assert hold_ended(idle_step(holder, IdleStep.LENT, NOW, "lent", "")) is None


def lent_with_guest(**guest):
    node = a_node()
    (host,) = seated([a_session("host")], [node])
    lent = replace(host, idle_step=IdleStep.LENT)
    return node, host, lent, seated([a_session("guest", preemptible=True, **guest)], [node], holding=[lent])


def test_a_guest_sits_in_what_is_lent_and_in_nothing_else():
    node, _host, lent, (guest,) = lent_with_guest()
    assert guest.seat.gpus[0].borrowed
    assert guest_moves([lent, guest], rooms([node], [lent, guest]), NOW).leave == ()


def test_a_guest_leaves_when_its_host_is_back():
    node, host, _lent, (guest,) = lent_with_guest()
    (eviction,) = guest_moves([host, guest], rooms([node], [host, guest]), NOW).leave
    assert (eviction.victim.name, eviction.for_session.name) == ("guest", "host")
    leaving = replace(guest, phase=Phase.STOPPING)
    assert guest_moves([host, leaving], rooms([node], [host, leaving]), NOW).leave == ()


def test_a_guest_whose_host_has_left_keeps_the_place_as_its_own():
    node, _host, _lent, (guest,) = lent_with_guest()
    moves = guest_moves([guest], rooms([node], [guest]), NOW)
    assert moves.leave == ()
    ((stays, seat),) = moves.stay
    assert (stays, seat.gpus[0].borrowed) == (guest, False)
    assert rooms([node], [replace(guest, seat=seat)])["gpu01"].gpus[0].free_parts == 0


def test_of_several_guests_only_as_many_leave_as_must():
    node = a_node()
    hosts = seated([a_session("host-1", gpus="0.5"), a_session("host-2", gpus="0.5")], [node])
    lent = [replace(host, idle_step=IdleStep.LENT) for host in hosts]
    old = seated([a_session("old", gpus="0.5", preemptible=True)], [node], minutes_ago=60, holding=lent)
    young = seated([a_session("young", gpus="0.5", preemptible=True)], [node], minutes_ago=5, holding=[*lent, *old])
    there = [hosts[0], lent[1], *old, *young]
    assert [one.victim.name for one in guest_moves(there, rooms([node], there), NOW).leave] == ["young"]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["0.25", "0.5", "1"]), st.booleans()), max_size=6),
    st.lists(st.sampled_from(["0.25", "0.5", "1"]), max_size=6), st.sets(st.integers(0, 5)),
)  # fmt: skip
def test_guests_never_sit_in_more_than_is_lent_and_free_and_after_they_moved_no_gpu_is_over_full(hosts, guests, back):
    """`back`: the hosts who use theirs again."""
    node = a_node(gpus=2)
    placed = plan(a_cluster([node], [a_session(gpus=gpus) for gpus, _ in hosts]), NOW).placed
    there = [running_at(one) for one in placed]
    lent = [replace(one, idle_step=IdleStep.LENT) if idle else one for one, (_, idle) in zip(there, hosts, strict=False)]
    made = plan(a_cluster([node], [a_session(gpus=gpus, preemptible=True) for gpus in guests], lent), NOW)
    came = [running_at(one) for one in made.placed]
    assert_never_over_full(node, [*lent, *came])
    then = [replace(one, idle_step=IdleStep.NONE) if place in back else one for place, one in enumerate(lent)]
    moves = guest_moves([*then, *came], rooms([node], [*then, *came]), NOW)
    seats, gone = {guest.id: seat for guest, seat in moves.stay}, {one.victim.id for one in moves.leave}
    assert_never_over_full(node, [*then, *(replace(one, seat=seats.get(one.id, one.seat)) for one in came if one.id not in gone)])


def running_at(placed):
    return replace(place(placed.session, placed.seat, NOW, "").after, phase=Phase.RUNNING, started_at=NOW)


def assert_never_over_full(node, holding):
    for gpu in rooms([node], holding)["gpu01"].gpus:
        assert gpu.unheld_parts >= 0
        assert gpu.open_parts(guest=True) >= 0
        assert gpu.open_memory_bytes(guest=True) >= 0


def test_a_rung_taken_at_a_time_to_come_by_a_clock_that_was_put_back_holds_nobody_on_it(holder):
    on_it = replace(holder, idle_step=IdleStep.WARNED, idle_since=NOW + timedelta(days=365))
    idle = watched(None, RESTS, NOW)
    assert next_rung(on_it, idle, Ladder(), lambda _: "", NOW) is None
    now = NOW + 30 * MINUTE
    assert next_rung(on_it, replace(idle, at=now), Ladder(), lambda _: "", now).to is IdleStep.LENT
