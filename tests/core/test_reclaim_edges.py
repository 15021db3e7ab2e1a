"""The reclaim ladder, at its edges: to the second, to the byte, and what the words promise."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.idle import Glance, watched
from gpufairy.core.node import Sharing
from gpufairy.core.reclaim import (
    Ladder,
    grown,
    is_back,
    is_due,
    next_rung,
    shrunk,
    why_not_lent,
    why_not_shrunk,
)
from gpufairy.core.room import rooms
from gpufairy.core.session import IdleStep, Wanted
from gpufairy.core.share import PARTS
from scenes import GIB, NOW, a_node, a_session, seated

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
LADDER = Ladder(shrink=True, stop=True)
GPU = "GPU-gpu01-0"
RESTS = Glance(False, 0.0, False)


@pytest.fixture
def holder():
    (session,) = seated([a_session("holder")], [a_node()])
    return session


def at(session, step, ago=HOUR, why="in 30 min it is stopped"):
    return replace(session, idle_step=step, idle_since=None if ago is None else NOW - ago, why=why)


def seat_with(session, **fields):
    return replace(
        session, seat=replace(session.seat, gpus=tuple(replace(gpu, **fields) for gpu in session.seat.gpus))
    )


def next_for(session, idle=9 * HOUR, ladder=LADDER, refuses=lambda _: ""):
    return next_rung(session, replace(watched(None, RESTS, NOW - idle), at=NOW), ladder, refuses, NOW)


def test_by_default_one_is_warned_after_an_hour_and_lent_half_an_hour_later_and_no_more():
    assert Ladder() == Ladder(HOUR, 30 * MINUTE, lend=True, shrink=False, stop=False)
    assert Ladder().below(IdleStep.NONE) == (IdleStep.WARNED, IdleStep.LENT)


def test_the_rungs_below_each_are_those_that_are_on():
    assert LADDER.below(IdleStep.NONE) == (IdleStep.WARNED, IdleStep.LENT, IdleStep.SHRUNK, IdleStep.STOPPED)
    assert LADDER.below(IdleStep.LENT) == (IdleStep.SHRUNK, IdleStep.STOPPED)
    assert LADDER.below(IdleStep.STOPPED) == ()


@pytest.mark.parametrize(
    ("ladder", "step", "allowed"),
    [
        (Ladder(), IdleStep.LENT, True), (Ladder(lend=False), IdleStep.LENT, False), (Ladder(lend=False), IdleStep.WARNED, True),
        (Ladder(idle_after=None), IdleStep.WARNED, False), (Ladder(idle_after=None), IdleStep.NONE, True),
        (Ladder(shrink=False), IdleStep.SHRUNK, True),
    ],
)  # fmt: skip
def test_nobody_stays_on_a_rung_that_was_switched_off(ladder, step, allowed):
    assert ladder.allows(step) is allowed


@pytest.mark.parametrize(("idle", "due"), [(HOUR, True), (HOUR - SECOND, False)])
def test_the_first_rung_is_due_after_an_hour_to_the_second(holder, idle, due):
    assert is_due(holder, NOW - idle, Ladder(), NOW) is due


@pytest.mark.parametrize(
    ("on_rung", "idle", "due"),
    [(30 * MINUTE, HOUR, True), (30 * MINUTE - SECOND, HOUR, False), (HOUR, 30 * MINUTE - SECOND, False), (None, HOUR, True), (None, MINUTE, False)],
)  # fmt: skip
def test_the_next_is_due_half_an_hour_after_the_last_and_of_idleness(holder, on_rung, idle, due):
    assert is_due(at(holder, IdleStep.WARNED, on_rung), NOW - idle, Ladder(), NOW) is due


@pytest.mark.parametrize(("kept", "due"), [(SECOND, False), (timedelta(0), True)])
def test_one_that_is_kept_is_due_when_that_is_over(holder, kept, due):
    assert is_due(replace(holder, kept_until=NOW + kept), NOW - 9 * HOUR, Ladder(), NOW) is due


def test_one_without_gpus_is_never_due():
    (session,) = seated([a_session(gpus="0")], [a_node()])
    assert not is_due(session, NOW - 9 * HOUR, Ladder(), NOW)


def test_nothing_to_do_and_nothing_left_out_is_nothing_to_say(holder):
    assert next_for(at(holder, IdleStep.LENT), ladder=Ladder()) is None


def test_one_that_is_shrunk_gets_its_half_with_the_rung_and_others_none(holder):
    found = next_for(at(holder, IdleStep.LENT))
    assert (found.to, found.seat) == (IdleStep.SHRUNK, shrunk(holder.seat))
    assert next_for(at(holder, IdleStep.WARNED)).seat is None


def test_words_say_what_was_done_and_what_comes(holder):
    warned = next_for(holder).why
    assert warned.endswith("Use it, or: fairy keep holder 2h")
    assert "in 30 min its GPUs are lent to preemptible sessions" in warned
    lent = next_for(at(holder, IdleStep.WARNED)).why
    assert "its GPUs are lent" in lent
    assert "it is stopped" not in lent
    halved = next_for(at(holder, IdleStep.LENT)).why
    assert "it has 0.5 GPU from now on" in halved
    assert halved.endswith(". In 30 min it is stopped")
    stopped = next_for(at(holder, IdleStep.SHRUNK)).why
    assert stopped.endswith("stopped. Start it again: fairy resume holder")


def test_one_who_was_not_told_of_the_stop_is_told_first_and_stays_where_it_is(holder):
    found = next_for(at(holder, IdleStep.SHRUNK, why="something else"))
    assert (found.to, "in 30 min it is stopped" in found.why) == (IdleStep.SHRUNK, True)


def test_a_warning_with_nothing_to_follow_says_that_others_may_need_them(holder):
    found = next_for(holder, ladder=Ladder(lend=False))
    assert found.why.startswith("idle for 9 h, since 03:00 UTC: others may need its GPUs.")


def test_one_that_is_told_to_stop_goes_back_to_no_top(holder):
    used = watched(None, Glance(True, 0.0, False), NOW)
    lent = at(holder, IdleStep.LENT)
    assert is_back(lent, used, LADDER)
    assert is_back(replace(lent, wanted=Wanted.STOP), used, LADDER) == ""
    assert is_back(lent, used, Ladder(lend=False)) == "idle sessions are asked for nothing here any more"


@pytest.mark.parametrize(("held", "lent"), [(2 * GIB, True), (2 * GIB + 1, False)])
def test_up_to_a_twentieth_of_its_memory_may_lie_about_on_what_is_lent(holder, held, lent):
    assert (why_not_lent(holder, {GPU: held}) == "") is lent


def test_a_guest_lends_nothing_itself(holder):
    assert why_not_lent(seat_with(holder, borrowed=True), {GPU: 0}) == "not lent: it is a guest there itself"
    assert why_not_lent(replace(holder, seat=None), None) == ""


@pytest.mark.parametrize(("held", "halved"), [(20 * GIB, True), (20 * GIB + 1, False)])
def test_up_to_half_of_its_memory_may_be_held_by_one_that_is_shrunk(holder, held, halved):
    assert (why_not_shrunk(holder, {GPU: held}, is_held=False, has_guests=False) == "") is halved


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"profile": "3g.20gb"}, "what it has is fixed while it runs"), ({"enforced": ("sm",)}, "what it has is fixed while it runs"),
        ({"borrowed": True}, "what it has is fixed while it runs"), ({"shrunk_from": PARTS}, "it was before"),
    ],
)  # fmt: skip
def test_why_one_is_not_shrunk_is_said(holder, fields, why):
    assert (
        why_not_shrunk(seat_with(holder, **fields), {GPU: 0}, is_held=False, has_guests=False)
        == f"not shrunk: {why}"
    )


def test_what_nobody_knows_is_not_shrunk_and_said_so(holder):
    for memory in (None, {}, {GPU: None}):
        told = why_not_shrunk(holder, memory, is_held=False, has_guests=False)
        assert told == "not shrunk: it holds nobody knows how much of the GPU's memory"
    assert (
        why_not_shrunk(holder, {GPU: 0}, is_held=False, has_guests=True)
        == "not shrunk: others use what it lends"
    )


@pytest.mark.parametrize(
    ("fields", "is_held", "may"),
    [
        ({"sharing": Sharing.MPS}, True, False), ({"sharing": Sharing.MPS}, False, True), ({"sharing": Sharing.TIME}, True, True),
        ({"sharing": Sharing.MPS, "simulated": True}, True, True),
    ],
)  # fmt: skip
def test_one_that_is_held_to_its_part_from_its_start_on_cannot_be_halved(holder, fields, is_held, may):
    assert (
        why_not_shrunk(seat_with(holder, **fields), {GPU: 0}, is_held=is_held, has_guests=False) == ""
    ) is may


def test_half_of_memory_that_was_asked_for_apart_is_taken_too(holder):
    (gpu,) = shrunk(seat_with(holder, memory_parts=PARTS // 2).seat).gpus
    assert (gpu.parts, gpu.memory_bytes, gpu.memory_parts, gpu.shrunk_from) == (
        PARTS // 2,
        20 * GIB,
        PARTS // 4,
        PARTS,
    )
    assert shrunk(holder.seat).gpus[0].memory_parts is None


def test_one_grows_back_only_where_it_was_shrunk_and_its_gpu_is_still_there(holder):
    node = a_node()
    small = replace(holder, seat=shrunk(holder.seat))
    assert grown(small, rooms([node], [])["gpu01"]) == holder.seat
    assert grown(holder, rooms([node], [])["gpu01"]) is None
    assert grown(replace(small, seat=None), rooms([node], [])["gpu01"]) is None
    other = replace(node, gpus=(replace(node.gpus[0], uuid="GPU-new"),))
    assert grown(small, rooms([other], [])["gpu01"]) is None


def test_of_two_gpus_of_which_one_was_shrunk_the_other_stays_as_it_is():
    (wide,) = seated([a_session(gpus="2")], [a_node(gpus=2)])
    first, second = wide.seat.gpus
    one_less = replace(wide, seat=replace(wide.seat, gpus=(shrunk(wide.seat).gpus[0], second)))
    assert grown(one_less, rooms([a_node(gpus=2)], [])["gpu01"]).gpus == (first, second)
