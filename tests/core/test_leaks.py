"""Leaks: what is held by nobody is found after several looks in turn, and never where somebody did not answer or lives."""
from dataclasses import replace
from datetime import timedelta

import pytest

from alert_scene import a_host_sample, a_reading
from builders import NOW, a_gpu_seat, a_seat, a_session
from gpufairy.core.leak_signs import NOBODYS_BYTES, Judged, LeakLook, remembered, signs
from gpufairy.core.leaks import LOOKS, LeakKind, Repair, follow, leaks_told, ordered, over_words, to_mend
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, LostGpu
from gpufairy.core.workload import Workload, WorkloadId, WorkloadState, workload_id

GIB = 2**30
MINUTE = timedelta(minutes=1)


def running(**fields):
    return a_session("work", **{"phase": Phase.RUNNING, "seat": a_seat("here", a_gpu_seat()), **fields})


def workload_of(session, **fields):
    return replace(Workload(workload_id(session), "here", WorkloadState.RUNNING, session=session), **fields)


def a_process(pid=7, memory=2 * GIB, *, uuid="GPU-0", owner=Owner("kim", KnownBy.ACCOUNT), **fields):
    process = RunningProcess(pid, fields.pop("start_ticks", 100), 1000, "python", **fields)
    return ProcessReading(GpuProcess(pid, uuid, memory), process, owner)


def of_session(session, pid=7, **fields):
    return a_process(pid, owner=Owner(session.owner, KnownBy.SESSION, session.id, session.name), **fields)


def a_sample(used, *processes, **fields):
    return a_host_sample("here", NOW, a_reading("GPU-0", memory_used_bytes=used), processes=processes, **fields)


def kinds(look):
    return [sign.kind for sign in signs(look)]


def looked(look, times=1, before=None):
    found = follow(before or {}, signs(look), Judged(look), look.now)
    for _ in range(times - 1):
        look = replace(look, now=look.now + MINUTE)
        found = follow(found.sightings, signs(look), Judged(look), look.now)
    return found


def test_a_seat_whose_container_is_gone_is_a_leak_after_several_looks_and_not_before():
    look = LeakLook(NOW, (running(),), ())
    assert looked(look, LOOKS - 1).found == ()
    third = looked(look, LOOKS)
    assert [one.sign.kind for one in third.found] == [LeakKind.SEAT]
    assert third.found[0].since == NOW
    assert "holds a seat on here, and nothing runs there" in third.found[0].sign.sentence
    assert looked(look, LOOKS + 1).found == (), "told once"


def test_looks_close_together_count_as_one():
    look = LeakLook(NOW, (running(),), ())
    found = looked(look)
    for second in range(20):
        again = replace(look, now=NOW + timedelta(seconds=second))
        found = follow(found.sightings, signs(again), Judged(again), again.now)
    assert next(iter(found.sightings.values())).looks == 1


@pytest.mark.parametrize("phase", [Phase.PLACED, Phase.STARTING])
def test_a_session_that_is_just_being_launched_has_no_container_yet(phase):
    assert signs(LeakLook(NOW, (running(phase=phase),), ())) == []


def test_a_session_about_which_something_is_being_done_is_no_leak():
    session = running()
    look = LeakLook(NOW, (session,), (), busy={workload_id(session)})
    assert signs(look) == []
    assert (LeakKind.SEAT, str(workload_id(session))) not in Judged(look)


def test_an_engine_that_does_not_answer_yields_no_finding_and_takes_none_back():
    session = running()
    assert signs(LeakLook(NOW, (session,), None)) == []
    sure = looked(LeakLook(NOW, (session,), ()), LOOKS)
    silent = LeakLook(NOW + 4 * MINUTE, (session,), None)
    after = looked(silent, before=sure.sightings)
    assert (after.over, len(after.sightings)) == ((), 1)
    much_later = replace(silent, now=NOW + timedelta(hours=1))
    assert len(looked(much_later, before=sure.sightings).over) == 1, "of long ago nothing is said"


def test_a_guess_that_is_not_seen_in_turn_begins_anew():
    session = running()
    twice = looked(LeakLook(NOW, (session,), ()), LOOKS - 1)
    gap = looked(LeakLook(NOW + 2 * MINUTE, (session,), None), before=twice.sightings)
    again = looked(LeakLook(NOW + 3 * MINUTE, (session,), ()), before=gap.sightings)
    assert [one.looks for one in again.sightings.values()] == [1]


def test_what_is_over_is_told_once_with_how_it_ended():
    session = running()
    sure = looked(LeakLook(NOW, (session,), ()), LOOKS)
    mending = {key: replace(one, mending_since=NOW) for key, one in sure.sightings.items()}
    calm = LeakLook(NOW + 5 * MINUTE, (), ())
    assert [over_words(one).partition(": ")[0] for one in looked(calm, before=mending).over] == ["put right"]
    assert [over_words(one).partition(": ")[0] for one in looked(calm, before=sure.sightings).over] == ["over"]


def test_a_container_whose_session_is_over_is_a_leak_and_one_that_nobody_knows_is_not():
    gone, unknown = running(), running()
    look = LeakLook(NOW, (), (workload_of(gone), workload_of(unknown)), ended={gone.id})
    [sign] = signs(look)
    assert (sign.kind, sign.workload) == (LeakKind.WORKLOAD, workload_id(gone))
    assert gone.name in sign.sentence
    old_try = running(attempt=2)
    assert kinds(LeakLook(NOW, (old_try,), (workload_of(old_try), workload_of(replace(old_try, attempt=1))))) == [LeakKind.WORKLOAD]
    assert signs(LeakLook(NOW, (), (workload_of(gone, state=WorkloadState.EXITED),), ended={gone.id})) == [], "it only waits to be cleared"
    assert signs(LeakLook(NOW, (), (workload_of(gone, silent_since=NOW),), ended={gone.id})) == [], "its node says nothing"


def test_our_label_on_something_that_names_no_session_is_told_and_never_mended():
    stranger = Workload(WorkloadId("who", 1), "here", WorkloadState.RUNNING)
    sure = looked(LeakLook(NOW, (), (stranger,)), LOOKS)
    assert [one.sign.kind for one in sure.found] == [LeakKind.UNREADABLE]
    assert to_mend(sure.sightings.values(), Repair.MEND) == []


def test_memory_beyond_the_sum_of_all_processes_is_held_by_nobody():
    some, much = a_process(memory=2 * GIB), 2 * GIB + NOBODYS_BYTES
    assert signs(LeakLook(NOW, samples=(a_sample(much, some),))) == [], "up to the margin it is the driver's own"
    [sign] = signs(LeakLook(NOW, samples=(a_sample(much + 3 * GIB, some),)))
    assert (sign.kind, sign.thing) == (LeakKind.MEMORY, "here GPU 0")
    assert sign.sentence == "here GPU 0 has 4 GiB in use that no process has"
    assert to_mend(looked(LeakLook(NOW, samples=(a_sample(9 * GIB),)), LOOKS).sightings.values(), Repair.MEND) == []


@pytest.mark.parametrize(
    ("used_mib", "of_processes_mib", "is_leak"),
    [(0, [], False), (43058, [10758] * 4, False), (12384, [1542] * 8, False), (10767, [10758], False), (10240, [], True)],
    ids=["nobody on it", "four of 10 GiB", "eight of 1 GiB", "one that has exported memory", "it was killed, and another process has the handle"],
)
def test_figures_read_on_an_h200_are_judged_right(used_mib, of_processes_mib, is_leak):
    processes = [a_process(pid, size * 2**20) for pid, size in enumerate(of_processes_mib, 100)]
    assert bool(signs(LeakLook(NOW, samples=(a_sample(used_mib * 2**20, *processes),)))) is is_leak


@pytest.mark.parametrize(
    "sample",
    [
        a_sample(30 * GIB, a_process(memory=None)),
        a_sample(30 * GIB, gpus_known=False),
        a_host_sample("here", NOW, a_reading("GPU-0", memory_used_bytes=None)),
        a_host_sample("here", NOW, a_reading("GPU-0", memory_used_bytes=30 * GIB, processes_known=False)),
        a_sample(30 * GIB, lost=(LostGpu(0, "GPU-0", "fell off the bus"),)),
    ],
    ids=["a process whose memory nobody tells", "driver silent", "memory not read", "processes hidden", "GPU lost"],
)
def test_where_the_driver_does_not_tell_all_no_memory_is_called_nobodys(sample):
    look = LeakLook(NOW, samples=(sample,))
    assert signs(look) == []
    assert (LeakKind.MEMORY, "here GPU 0") not in Judged(look)


def test_simulated_gpus_and_shared_mig_instances_are_not_counted():
    sample = a_sample(30 * GIB)
    simulated = replace(sample, devices=tuple(replace(device, simulated=True) for device in sample.devices))
    parent = replace(sample.devices[0], mig=True)
    both = tuple(GpuDevice(f"MIG-{n}", f"0_1_{n}", 0, "H200", 20 * GIB, parent=parent.uuid) for n in (0, 1))
    readings = (*sample.readings, *(a_reading(one.uuid, memory_used_bytes=9 * GIB) for one in both))
    assert signs(LeakLook(NOW, samples=(simulated,))) == []
    assert signs(LeakLook(NOW, samples=(replace(sample, devices=(parent, *both), readings=readings),))) == []
    alone = replace(sample, devices=(parent, both[0]), readings=readings[:2])
    assert [sign.thing for sign in signs(LeakLook(NOW, samples=(alone,)))] == ["here GPU 0_1_0"]


def test_a_session_that_cannot_open_its_gpu_is_told_of_and_left_alone():
    session = running()
    look = LeakLook(NOW, (session,), (workload_of(session),), gpu_open={session.id: False})
    sure = looked(look, LOOKS)
    assert [one.sign.kind for one in sure.found] == [LeakKind.GPU_SHUT]
    assert to_mend(sure.sightings.values(), Repair.MEND) == []
    not_asked = looked(replace(look, gpu_open={}, now=NOW + 4 * MINUTE), before=sure.sightings)
    assert not_asked.over == ()
    assert len(looked(replace(look, gpu_open={session.id: True}, now=NOW + 5 * MINUTE), before=sure.sightings).over) == 1
    assert len(looked(LeakLook(NOW + 5 * MINUTE, (), ()), before=sure.sightings).over) == 1, "its session ended"


@pytest.mark.parametrize(
    ("state", "words"), [("Z", "though it is dead"), ("D", "stuck in the kernel"), ("S", "and runs on")],
)
def test_a_process_of_a_session_that_is_over_is_told_with_its_state(state, words):
    session = running()
    sample = a_sample(2 * GIB, of_session(session, state=state))
    [sign] = signs(LeakLook(NOW, (), (), samples=(sample,)))
    assert (sign.kind, sign.session_id) == (LeakKind.HOLDER, session.id)
    assert words in sign.sentence
    assert signs(LeakLook(NOW, (session,), (workload_of(session),), samples=(sample,))) == [], "its session lives"


def test_a_process_that_died_is_known_by_who_it_was():
    session = running()
    alive = a_sample(2 * GIB, of_session(session))
    once = remembered({}, [alive])
    dead = a_sample(2 * GIB, a_process(owner=Owner(), start_ticks=0))
    once = remembered(once, [dead])
    [sign] = signs(LeakLook(NOW, (), (), samples=(dead,), once_of=once))
    assert session.name in sign.sentence
    assert "the driver does not let go" in sign.sentence
    another = a_sample(2 * GIB, a_process(start_ticks=999))
    assert remembered(once, [another]) == {}, "the number was given to somebody else"
    assert remembered(once, [replace(another, gpus_known=False)]) == once, "who says nothing changes nothing"


def test_outsiders_are_left_to_their_own_alert_unless_they_are_dead():
    assert signs(LeakLook(NOW, samples=(a_sample(2 * GIB, a_process(state="D")),))) == []
    assert kinds(LeakLook(NOW, samples=(a_sample(2 * GIB, a_process(state="Z")),))) == [LeakKind.HOLDER]
    server = a_process(owner=Owner("root", KnownBy.MPS), state="Z")
    assert signs(LeakLook(NOW, samples=(a_sample(2 * GIB, server),))) == []


def test_only_what_is_sure_is_mended_or_told_and_nothing_where_the_admin_says_so():
    session = running()
    look = LeakLook(NOW, (session,), ())
    assert to_mend(looked(look).sightings.values(), Repair.MEND) == []
    sure = looked(look, LOOKS).sightings.values()
    assert len(to_mend(sure, Repair.MEND)) == 1
    assert to_mend(sure, Repair.TELL) == []
    assert [leak.node for leak in leaks_told(sure)] == ["here"]
    assert leaks_told(looked(look).sightings.values()) == []
    assert [one.sure for one in ordered([*looked(look).sightings.values(), *sure])] == [True, False]
