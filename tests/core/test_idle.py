"""Idle, at its edges: what one sample says of a session, and what becomes of it over many. Not known is never idle."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.idle import LONGEST_GAP, Glance, Watched, glances, idle_since, watched
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess, GpuReading
from gpufairy.core.reclaim import Ladder, next_rung, why_not_lent
from scenes import GIB, NOW, a_node, a_session, seated

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
RESTS = Glance(False, 0.0, False)
UNKNOWN = Glance(None, 0.0, False, "its driver does not answer")
NOBODYS = Owner(container_id="abc")


@pytest.fixture
def holder():
    (session,) = seated([a_session("holder")], [a_node()])
    return session


def a_reading(index=0, **fields):
    return replace(GpuReading(f"GPU-gpu01-{index}", NOW, utilisation=0.0, memory_used_bytes=0), **fields)


def a_process(session_id="", utilisation=0.0, memory_bytes=0, active=None, owner=None):
    whose = owner or Owner("ann", KnownBy.SESSION, session_id, "holder")
    return ProcessReading(
        GpuProcess(7, "GPU-gpu01-0", memory_bytes, utilisation),
        RunningProcess(7, 1, 1000, "python"),
        whose,
        active,
    )


def glance(session, *processes, readings=(), cpus=0.0, typed=False, **fields):
    said = (SessionReading(session.id, cpus, GIB, typed),)
    sample = NodeSample(
        "gpu01", NOW, 1.0, readings=readings or (a_reading(),), processes=processes, sessions=said
    )
    return glances(replace(sample, **fields), [session])[session.id]


def unread(session):
    """The driver told everything of the GPU but who is on it."""
    return glance(session, readings=(a_reading(processes_known=False),))


def looked(*looks, every=MINUTE):
    found, now = None, NOW - every
    for look in looks:
        now += every
        found = watched(found, look, now)
    return found, now


def test_a_process_list_that_could_not_be_read_is_no_empty_one(holder):
    seen = unread(holder)
    assert (seen.gpus_busy, seen.why) == (None, "who is on GPU 0 cannot be read")
    assert watched(None, seen, NOW).active is None


def test_what_is_held_of_a_gpu_whose_processes_could_not_be_read_is_not_known(holder):
    seen = unread(holder)
    assert seen.memory == {"GPU-gpu01-0": None}
    assert why_not_lent(holder, seen.memory) == "not lent: what it holds of the GPU's memory is not known"


def test_one_gpu_that_cannot_be_read_is_enough_for_a_session_on_two():
    (session,) = seated([a_session("wide", "2")], [a_node(gpus=2)])
    assert glance(session, readings=(a_reading(0), a_reading(1))).gpus_busy is False
    assert glance(session, readings=(a_reading(0), a_reading(1, processes_known=False))).gpus_busy is None


def test_nobody_is_warned_lent_or_stopped_while_nobody_can_read_who_is_on_the_gpu(holder):
    found, now = looked(*[unread(holder)] * 180)
    assert idle_since(found, now) is None
    assert next_rung(holder, found, Ladder(stop=True, shrink=True), lambda rung: "", now) is None


def test_idleness_ends_where_the_list_of_processes_could_not_be_read_for_long(holder):
    found, now = looked(glance(holder), *[unread(holder)] * 10, glance(holder))
    assert idle_since(found, now) == now


def test_a_driver_that_does_not_answer_says_nothing_of_memory_either(holder):
    seen = glance(holder, gpus_known=False)
    assert (seen.gpus_busy, seen.memory) == (None, None)
    assert seen.why == "the GPU driver of its host does not answer"


@pytest.mark.parametrize(("utilisation", "busy"), [(0.01, True), (0.0099, False)])
def test_one_percent_of_a_program_is_use_and_less_is_not(holder, utilisation, busy):
    assert glance(holder, a_process(holder.id, utilisation)).gpus_busy is busy


def test_a_busy_gpu_on_which_only_its_own_programs_are_is_in_use_by_them(holder):
    at_rest = a_process(holder.id)
    seen = glance(holder, at_rest, readings=(a_reading(utilisation=0.01),))
    assert (seen.gpus_busy, seen.why) == (True, "")
    assert glance(holder, at_rest, readings=(a_reading(utilisation=0.0099),)).gpus_busy is False


def test_a_busy_gpu_on_which_nobody_is_seen_is_not_known(holder):
    seen = glance(holder, readings=(a_reading(utilisation=0.01),))
    assert (seen.gpus_busy, seen.why) == (None, "something that is not seen uses GPU 0")


def test_the_use_of_a_gpu_that_cannot_be_read_matters_only_where_its_own_programs_do_not_tell(holder):
    blind = (a_reading(utilisation=None),)
    assert glance(holder, readings=blind).why == "the use of GPU 0 cannot be read"
    beside = a_process("guest", utilisation=0.9)
    assert glance(holder, a_process(holder.id), beside, readings=blind).gpus_busy is False


def test_a_program_of_nobody_whose_use_cannot_be_read_may_be_its_own(holder):
    seen = glance(holder, a_process(owner=NOBODYS, utilisation=None))
    assert (seen.gpus_busy, seen.why) == (None, "whose program computes on GPU 0 is not known")


def test_a_program_of_another_session_whose_use_cannot_be_read_is_not_its_own(holder):
    assert glance(holder, a_process("guest", utilisation=None)).gpus_busy is False


def test_its_own_program_whose_use_cannot_be_read_is_named(holder):
    seen = glance(holder, a_process(holder.id, utilisation=None))
    assert (seen.gpus_busy, seen.why) == (None, "what its program does on GPU 0 cannot be read")


def test_a_program_of_its_own_on_a_gpu_that_is_not_its_counts_as_use(holder):
    elsewhere = replace(a_process(holder.id), on=GpuProcess(7, "GPU-gpu01-5", 0, 0.9))
    assert glance(holder, elsewhere).gpus_busy is True


def test_memory_is_that_of_its_own_programs_and_of_nobodys(holder):
    own, nobodys = a_process(holder.id, memory_bytes=3 * GIB), a_process(owner=NOBODYS, memory_bytes=4 * GIB)
    others = a_process("guest", memory_bytes=8 * GIB)
    assert glance(holder, own, nobodys, others).memory == {"GPU-gpu01-0": 7 * GIB}


def test_memory_is_not_known_where_that_of_one_program_is_not(holder):
    own, unknown = a_process(holder.id, memory_bytes=3 * GIB), a_process(holder.id, memory_bytes=None)
    assert glance(holder, own, unknown).memory == {"GPU-gpu01-0": None}


@pytest.mark.parametrize(
    ("cpus", "active", "why"), [(0.05, True, "it uses 0.05 CPUs"), (0.049, False, "nothing computes")]
)
def test_a_twentieth_of_a_cpu_is_use_and_less_is_not(cpus, active, why):
    found = watched(None, replace(RESTS, cpus=cpus), NOW)
    assert (found.active, found.why[: len(why)]) == (active, why)


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (UNKNOWN, "its driver does not answer"),
        (replace(RESTS, cpus=None), "what it takes of the CPUs is not known"),
        (replace(RESTS, typed=None), "whether anybody types in it is not known"),
    ],
)
def test_what_is_not_known_is_said(look, why):
    found = watched(None, look, NOW)
    assert (found.active, found.why) == (None, why)


def test_use_counts_whatever_else_is_not_known():
    assert watched(None, replace(UNKNOWN, typed=True), NOW).active is True
    assert watched(None, replace(UNKNOWN, cpus=1.0), NOW).active is True


def test_cpus_are_a_mean_that_forgets_within_a_minute():
    found, _ = looked(replace(RESTS, cpus=1.0), replace(RESTS, cpus=0.5))
    assert found.cpus == pytest.approx(1.0 * math.exp(-1) + 0.5 * (1 - math.exp(-1)))


def test_cpus_that_cannot_be_read_this_once_are_not_known():
    found, _ = looked(RESTS, replace(RESTS, cpus=None))
    assert (found.active, found.why) == (None, "what it takes of the CPUs is not known")
    assert found.cpus == 0.0, "the mean goes on from the last that was read"


def test_a_clock_that_went_back_makes_no_mean_larger_than_its_parts():
    before = Watched(NOW + MINUTE, False, "", NOW, 0.04)
    assert watched(before, replace(RESTS, cpus=9.0), NOW).cpus == pytest.approx(0.04)


@pytest.mark.parametrize(("late", "since"), [(timedelta(0), NOW), (SECOND, None)])
def test_what_was_seen_last_is_good_for_a_minute_and_a_half(late, since):
    found, now = looked(RESTS)
    assert timedelta(seconds=90) == LONGEST_GAP
    assert idle_since(found, now + LONGEST_GAP + late) == since


@pytest.mark.parametrize(("late", "unbroken"), [(timedelta(0), True), (SECOND, False)])
def test_idleness_goes_on_over_a_gap_of_a_minute_and_a_half(late, unbroken):
    found, now = looked(RESTS, RESTS, every=LONGEST_GAP + late)
    assert idle_since(found, now) == (NOW if unbroken else now)


def test_one_in_use_is_idle_since_no_time():
    found, now = looked(RESTS, replace(RESTS, typed=True))
    assert (idle_since(found, now), found.idle_since) == (None, None)


def test_a_look_at_which_nothing_is_known_neither_ends_nor_prolongs_idleness():
    found, now = looked(RESTS, RESTS, UNKNOWN)
    assert (found.at, found.idle_since, found.active) == (NOW + MINUTE, NOW, None)
    assert found.glance is UNKNOWN
    assert idle_since(found, now) is None


def test_a_session_of_which_nothing_was_ever_known_is_active_unknown_and_idle_since_no_time():
    found, now = looked(UNKNOWN)
    assert (found.at, found.idle_since, found.active) == (NOW, None, None)
    assert idle_since(None, now) is None


def test_a_session_without_a_seat_uses_no_gpu():
    seen = glance(a_session())
    assert (seen.gpus_busy, seen.memory) == (False, {})
