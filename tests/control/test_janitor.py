"""The janitor on a whole house: an independent look each minute, that mends only what harms nobody who is alive."""
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from house_scene import a_house

from alert_scene import a_host_sample, a_reading
from builders import a_gpu, a_node
from gpufairy.control.gpu_access import GpuAccess, verdict
from gpufairy.control.janitor import Janitor
from gpufairy.core.leaks import LOOKS, LeakKind, Repair
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess
from gpufairy.core.session import Outcome
from gpufairy.core.workload import WorkloadState, workload_id
from gpufairy.engines.fake import Container

GIB = 2**30
REAL = a_node(gpus=1)
REAL = replace(REAL, gpus=(a_gpu(simulated=False, uuid="GPU-0"),))


class Minutes:
    """A house, its janitor, and minutes that go by."""

    def __init__(self, scene, repair=Repair.MEND, python=None):
        self.scene, self.house = scene, scene.house
        self.janitor = Janitor(scene.house, repair, GpuAccess(scene.house, python))

    async def look(self, times=1):
        for _ in range(times):
            self.scene.clock.go_on(timedelta(minutes=1))
            await self.janitor.look()
            await self.house.deeds.settled()

    async def events(self):
        return [(event.what, event.why) for event in await self.house.store.events.page(limit=1000) if event.what.startswith("leak_")]

    async def found(self):
        return [(one.sign.kind, one.sure) for one in (await self.janitor.report()).sightings]


@asynccontextmanager
async def minutes(folder, repair=Repair.MEND, python=None, **settings):
    async with a_house(folder, **settings) as scene:
        yield Minutes(scene, repair, python)


async def started(scene, **fields):
    session = await scene.submit(**fields)
    await scene.rest()
    return await scene.now(session)


def left_behind(scene, session):
    """Somebody starts its container again by hand, with our labels on it."""
    scene.containers.running[workload_id(session)] = Container(session, WorkloadState.RUNNING, scene.clock())


async def test_a_seat_without_container_is_found_after_three_minutes_and_given_back(tmp_path):
    async with minutes(tmp_path) as time:
        session = await started(time.scene)
        time.scene.containers.vanish(workload_id(session))
        await time.look(LOOKS - 1)
        assert await time.events() == []
        assert (await time.scene.now(session)).phase is Phase.RUNNING, "not at first sight"
        await time.look()
        gone = await time.scene.now(session)
        assert (gone.phase, gone.outcome) == (Phase.ENDED, Outcome.LOST)
        assert [what for what, _ in await time.events()] == ["leak_found"]
        await time.look()
        assert [what for what, _ in await time.events()] == ["leak_found", "leak_mended"]
        assert await time.found() == []
        assert [event.what for event in (await time.janitor.report()).mended] == ["leak_mended"]


async def test_where_the_admin_says_tell_nothing_is_touched_and_alerts_hear_of_it(tmp_path):
    async with minutes(tmp_path, Repair.TELL) as time:
        session = await started(time.scene)
        time.scene.containers.vanish(workload_id(session))
        await time.look(LOOKS + 3)
        assert (await time.scene.now(session)).phase is Phase.RUNNING
        assert [leak.node for leak in time.janitor.leaks()] == ["here"]
        await time.scene.rest()
        await time.look()
        assert [what for what, _ in await time.events()] == ["leak_found", "leak_mended"], "by converge, whose work it is"
        assert time.janitor.leaks() == []


async def test_an_engine_that_does_not_answer_is_no_sign_of_anything(tmp_path):
    async with minutes(tmp_path) as time:
        session = await started(time.scene)
        time.scene.containers.silent = "restarting"
        await time.look(LOOKS + 2)
        assert (await time.events(), await time.found()) == ([], [])
        assert (await time.janitor.report()).engine_answers is False
        assert (await time.scene.now(session)).phase is Phase.RUNNING


async def test_a_session_that_is_being_launched_is_left_alone(tmp_path):
    async with minutes(tmp_path) as time:
        time.scene.containers.slow_start = True
        session = await started(time.scene)
        assert session.phase is Phase.STARTING
        await time.look(LOOKS + 2)
        assert (await time.events(), await time.found()) == ([], [])


async def test_a_container_of_an_ended_session_is_stopped_and_that_is_written_down(tmp_path):
    async with minutes(tmp_path) as time:
        session = await started(time.scene)
        await time.scene.stop(session)
        await time.scene.rest()
        left_behind(time.scene, session)
        await time.look(LOOKS)
        assert time.scene.containers.alive() == []
        await time.look()
        assert [what for what, _ in await time.events()] == ["leak_found", "leak_mended"]


async def test_what_converge_puts_right_within_a_second_is_written_down_once(tmp_path):
    async with minutes(tmp_path) as time:
        ended, gone = await started(time.scene), await started(time.scene)
        await time.scene.stop(ended)
        await time.scene.rest()
        left_behind(time.scene, ended)
        time.scene.containers.vanish(workload_id(gone))
        await time.scene.rest()
        await time.look(2)
        told = await time.events()
        assert [what for what, _ in told] == ["leak_mended", "leak_mended"]
        assert any("nothing ran there: the seat was given back" in why for _, why in told)
        assert any(f"session {ended.name} of ann, which is over: it was stopped" in why for _, why in told)


async def test_an_ordinary_stop_and_an_ordinary_end_are_no_leaks(tmp_path):
    async with minutes(tmp_path) as time:
        stopped, done = await started(time.scene), await started(time.scene)
        await time.scene.stop(stopped)
        time.scene.containers.exit(workload_id(done), 0)
        await time.scene.rest()
        await time.look(LOOKS + 1)
        assert (await time.events(), await time.found()) == ([], [])


async def test_a_session_that_was_killed_and_is_still_there_is_told_until_it_is_gone(tmp_path):
    async with minutes(tmp_path) as time:
        session = await started(time.scene)
        time.scene.containers.deaf = True
        await time.scene.stop(session)
        await time.scene.rest()
        await time.look()
        assert await time.found() == [(LeakKind.STUCK, True)]
        time.scene.containers.deaf = False
        await time.scene.rest()
        await time.look(2)
        assert await time.found() == []


async def test_what_cannot_be_killed_stays_found_and_is_told_to_stop_again(tmp_path):
    async with minutes(tmp_path) as time:
        session = await started(time.scene)
        await time.scene.stop(session)
        await time.scene.rest()
        left_behind(time.scene, session)
        time.scene.containers.deaf = True
        await time.look(LOOKS + 2)
        assert await time.found() == [(LeakKind.WORKLOAD, True)]
        assert [what for what, _ in await time.events()] == ["leak_found"]
        time.scene.containers.deaf = False
        await time.look(2)
        assert [what for what, _ in await time.events()] == ["leak_found", "leak_mended"]


async def test_a_container_of_a_live_session_is_never_touched(tmp_path):
    async with minutes(tmp_path) as time:
        session = await started(time.scene)
        await time.look(LOOKS + 2)
        assert time.scene.containers.alive() == [workload_id(session)]
        assert await time.events() == []


async def test_memory_that_no_process_has_is_told_and_what_is_on_the_gpu_left_alone(tmp_path):
    async with minutes(tmp_path, node=REAL) as time:
        session = await started(time.scene)
        assert session.phase is Phase.RUNNING
        owner = Owner("ann", KnownBy.SESSION, session.id, session.name)
        process = ProcessReading(GpuProcess(7, "GPU-0", 4 * GIB), RunningProcess(7, 100, 1000, "python", state="S"), owner)
        used = a_reading("GPU-0", memory_used_bytes=30 * GIB)
        for _ in range(LOOKS):
            time.house.watch.take(a_host_sample("here", time.scene.clock(), used, processes=(process,)), own=True)
            await time.look()
        assert await time.found() == [(LeakKind.MEMORY, True)]
        assert time.janitor.leaks()[0].sentence == "here GPU 0 has 26 GiB in use that no process has"
        assert time.scene.containers.alive() == [workload_id(session)]
        time.house.watch.take(a_host_sample("here", time.scene.clock(), a_reading("GPU-0", memory_used_bytes=4 * GIB), processes=(process,)), own=True)
        await time.look()
        assert [what for what, _ in await time.events()] == ["leak_found", "leak_gone"]


async def test_a_dead_process_is_known_by_the_session_it_was_of(tmp_path):
    async with minutes(tmp_path, node=REAL) as time:
        session = await started(time.scene)
        owner = Owner("ann", KnownBy.SESSION, session.id, session.name)
        alive = ProcessReading(GpuProcess(7, "GPU-0", 4 * GIB), RunningProcess(7, 100, 1000, "python", state="S"), owner)
        used = a_reading("GPU-0", memory_used_bytes=4 * GIB)
        time.house.watch.take(a_host_sample("here", time.scene.clock(), used, processes=(alive,)), own=True)
        await time.look()
        await time.scene.stop(session)
        await time.scene.rest()
        dead = replace(alive, process=RunningProcess(7, 0, None, "[not found]"), owner=Owner())
        time.house.watch.take(a_host_sample("here", time.scene.clock(), used, processes=(dead,)), own=True)
        await time.look(LOOKS)
        assert await time.found() == [(LeakKind.HOLDER, True)]
        assert f"of session {session.name}, which is over," in time.janitor.leaks()[0].sentence


async def test_a_session_is_asked_whether_it_can_open_its_gpu_and_told_of_if_not(tmp_path):
    async with minutes(tmp_path, node=REAL, python="python3") as time:
        session = await started(time.scene)
        time.scene.containers.opened_prints = b'{"open": false}\n'
        await time.look(LOOKS + 1)
        assert await time.found() == [(LeakKind.GPU_SHUT, True)]
        assert f"session {session.name} of ann on here may not open its GPU any more" in time.janitor.leaks()[0].sentence
        assert time.scene.containers.alive() == [workload_id(session)]
        time.scene.containers.opened_prints = b"rubbish\n"
        await time.look()
        assert await time.found() == [(LeakKind.GPU_SHUT, True)], "no answer changes nothing"
        time.scene.containers.opened_prints = b'{"open": true}\n'
        await time.look()
        assert await time.found() == []


async def test_simulated_gpus_are_not_asked_for(tmp_path):
    async with minutes(tmp_path, python="python3") as time:
        await started(time.scene)
        time.scene.containers.opened_prints = b'{"open": false}\n'
        await time.look(LOOKS + 1)
        assert await time.found() == []


def test_what_a_session_says_of_itself_is_believed_in_shape_alone():
    assert [verdict(told) for told in ({"open": True}, {"open": False}, {"open": None}, {"open": "no"}, {}, None)] == [True, False, None, None, None, None]
