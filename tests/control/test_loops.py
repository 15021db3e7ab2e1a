"""The loops on an engine that fails on order, with a clock that the test holds."""
import asyncio
import shutil
from datetime import timedelta

import pytest
from house_scene import POLICY, a_house

from gpufairy.control.converge import converge
from gpufairy.control.loop import Loop
from gpufairy.control.place import place_waiting
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Outcome
from gpufairy.core.steps import send_back
from gpufairy.core.workload import workload_id
from gpufairy.engines.fake import TERMINATED, FakeContainers

MINUTE = timedelta(minutes=1)


async def test_a_session_is_placed_launched_and_ended_with_its_code(tmp_path):
    async with a_house(tmp_path) as scene:
        session = await scene.submit()
        await scene.rest()
        assert (await scene.now(session)).phase is Phase.RUNNING
        scene.containers.exit(workload_id(session), 0)
        await scene.rest()
        ended = await scene.now(session)
        assert (ended.phase, ended.outcome, ended.exit_code) == (Phase.ENDED, Outcome.DONE, 0)
        assert (await scene.house.engine.list_mine()) == []


async def test_time_is_up_by_the_clock_that_is_held_and_not_before(tmp_path):
    async with a_house(tmp_path) as scene:
        session = await scene.submit(time="1h")
        await scene.rest()
        await scene.later(59 * MINUTE)
        assert (await scene.now(session)).phase is Phase.RUNNING
        await scene.later(2 * MINUTE)
        ended = await scene.now(session)
        assert (ended.phase, ended.outcome) == (Phase.ENDED, Outcome.EXPIRED)


async def test_a_silent_engine_ends_nothing_and_what_ran_is_found_again(tmp_path):
    async with a_house(tmp_path) as scene:
        session = await scene.submit()
        await scene.rest()
        scene.containers.silent = "the daemon is restarting"
        await scene.later(MINUTE / 2)
        assert (await scene.now(session)).phase is Phase.RUNNING
        await scene.later(2 * POLICY.silent_after)
        lost = await scene.now(session)
        assert (lost.phase, lost.seat is not None) == (Phase.LOST, True)
        assert "the daemon is restarting" in lost.why
        scene.containers.silent = ""
        await scene.rest()
        back = await scene.now(session)
        assert (back.phase, back.attempt) == (Phase.RUNNING, 1)
        assert len(scene.containers.launches) == 1


async def test_nothing_is_placed_while_the_engine_is_silent(tmp_path):
    async with a_house(tmp_path) as scene:
        scene.containers.silent = "gone"
        await scene.rest()
        session = await scene.submit()
        await scene.rest()
        assert (await scene.now(session)).phase is Phase.QUEUED
        scene.containers.silent = ""
        await scene.rest()
        assert (await scene.now(session)).phase is Phase.RUNNING


async def test_a_launch_whose_answer_is_lost_happens_once(tmp_path):
    async with a_house(tmp_path) as scene:
        scene.containers.lose_answers = 1
        session = await scene.submit()
        await scene.rest()
        assert (await scene.now(session)).phase is Phase.RUNNING
        assert scene.containers.launches == [workload_id(session)]


async def test_a_refusal_is_tried_again_later_and_given_up_in_words(tmp_path):
    async with a_house(tmp_path) as scene:
        scene.containers.refuse_next = ["no such image"] * POLICY.most_refusals
        session = await scene.submit()
        for _ in range(POLICY.most_refusals):
            await scene.later(MINUTE)
        ended = await scene.now(session)
        assert (ended.phase, ended.outcome) == (Phase.ENDED, Outcome.FAILED)
        assert "no such image" in ended.why
        assert scene.house.book.holding() == []


async def test_a_process_that_cannot_be_killed_keeps_its_gpu(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        stuck = await scene.submit()
        await scene.rest()
        scene.containers.deaf = True
        await scene.stop(stuck)
        waiting = await scene.submit()
        await scene.rest()
        await scene.later(10 * MINUTE)
        assert ((await scene.now(stuck)).phase, (await scene.now(waiting)).phase) == (Phase.STOPPING, Phase.QUEUED)
        assert "cannot be ended" in (await scene.now(stuck)).why
        scene.containers.deaf = False
        await scene.later(MINUTE)
        assert ((await scene.now(stuck)).phase, (await scene.now(waiting)).phase) == (Phase.ENDED, Phase.RUNNING)


async def test_who_was_told_to_leave_just_before_a_crash_is_asked_again_and_not_killed(tmp_path):
    containers = FakeContainers()
    async with a_house(tmp_path, containers) as scene:
        session, clock = await scene.submit(), scene.clock
        await scene.rest()
        await scene.house.save([send_back(await scene.now(session), clock(), "for others")])
    clock.go_on(MINUTE)
    async with a_house(tmp_path, containers, clock) as scene:
        await converge(scene.house)
        await scene.house.deeds.settled()
        assert containers.running[workload_id(session)].exit_code == TERMINATED


async def test_after_a_silence_nobody_is_placed_before_what_runs_is_written_down(tmp_path):
    containers = FakeContainers()
    (tmp_path / "old").mkdir()
    async with a_house(tmp_path / "old", containers, gpus=1) as scene:
        found = await scene.submit()
        await scene.rest()
    (tmp_path / "new").mkdir()
    async with a_house(tmp_path / "new", containers, gpus=1) as scene:
        containers.silent = "the daemon is restarting"
        await converge(scene.house)
        waiting = await scene.submit()
        containers.silent = ""
        looking = asyncio.create_task(converge(scene.house))
        while not looking.done():
            await asyncio.sleep(0)
            await place_waiting(scene.house)
        assert ((await scene.now(found)).phase, (await scene.now(waiting)).phase) == (Phase.RUNNING, Phase.QUEUED)


async def test_a_restarted_server_finds_what_runs_and_launches_nothing_again(tmp_path):
    containers = FakeContainers()
    async with a_house(tmp_path, containers) as scene:
        running, waiting = await scene.submit(), await scene.submit(gpus="2")
        await scene.rest()
    async with a_house(tmp_path, containers) as scene:
        await scene.rest()
        assert (await scene.now(running)).phase is Phase.RUNNING
        assert (await scene.now(waiting)).phase is Phase.QUEUED
        assert len(containers.launches) == 1


async def test_an_empty_database_adopts_by_labels_and_kills_nothing(tmp_path):
    containers = FakeContainers()
    (tmp_path / "old").mkdir()
    async with a_house(tmp_path / "old", containers) as scene:
        session = await scene.submit(gpus="0.5")
        await scene.rest()
    (tmp_path / "new").mkdir()
    async with a_house(tmp_path / "new", containers) as scene:
        await scene.rest()
        adopted = await scene.now(session)
        assert (adopted.phase, adopted.owner, adopted.name) == (Phase.RUNNING, "ann", session.name)
        first = (await scene.house.store.events.page(limit=10))[0]
        assert first.what == "adopted"
        assert containers.alive() == [workload_id(session)]


async def test_a_restored_database_adopts_what_ran_ahead_of_it_and_gives_its_gpu_to_nobody(tmp_path):
    """Yesterday's rows: one was queued then and runs now, one is at its second attempt now. Both go on; a third gets neither's GPU."""
    containers = FakeContainers()
    (tmp_path / "yesterday").mkdir()
    async with a_house(tmp_path / "yesterday", containers) as scene:
        queued, retried = await scene.submit(name="queued"), await scene.submit(name="retried", retry=1)
        shutil.copytree(tmp_path / "yesterday", tmp_path / "restored")
        await scene.rest()
        containers.exit(workload_id(retried), 1)
        await scene.rest()
        await scene.later(MINUTE)
        assert (await scene.now(retried)).attempt == 2
        alive = set(containers.alive())
        assert len(alive) == 2
    async with a_house(tmp_path / "restored", containers) as scene:
        third = await scene.submit(name="third")
        await converge(scene.house)
        await scene.rest()
        assert [(await scene.now(s)).phase for s in (queued, retried, third)] == [Phase.RUNNING, Phase.RUNNING, Phase.QUEUED]
        assert set(containers.alive()) == alive
        assert (await scene.now(retried)).attempt == 2


async def test_a_session_stopped_while_its_launch_waits_never_starts(tmp_path):
    async with a_house(tmp_path) as scene:
        scene.containers.delay = timedelta(seconds=0.05)
        session = await scene.submit()
        await place_waiting(scene.house)
        await converge(scene.house)
        await scene.stop(session)
        await converge(scene.house)
        scene.containers.delay = timedelta(0)
        await scene.rest()
        await scene.later(MINUTE)
        assert (await scene.now(session)).phase is Phase.ENDED
        assert scene.containers.alive() == []


async def test_names_made_up_at_the_same_time_are_never_the_same(tmp_path):
    async with a_house(tmp_path) as scene:
        made = await asyncio.gather(*(scene.submit(gpus="0") for _ in range(300)))
        assert len({session.name for session in made}) == 300


async def test_a_loop_that_fails_for_hours_goes_on():
    async def turn():
        raise ValueError("the disk is full")

    loop = Loop("patient", turn, asyncio.Event(), every_s=1)
    for _ in range(1100):
        await loop.once()
    assert loop.failing == "the disk is full"


async def test_what_a_session_held_is_in_the_ledger_to_the_second(tmp_path):
    async with a_house(tmp_path) as scene:
        session = await scene.submit()
        await scene.rest()
        await scene.later(90 * MINUTE)
        await scene.stop(session)
        await scene.rest()
        used = (await scene.house.store.sessions.usage())["ann"]
        assert used.gpu_seconds == pytest.approx(90 * 60, rel=0.01)


async def test_a_session_that_waits_for_another_lines_up_when_it_is_done_and_fails_when_it_fails(tmp_path):
    async with a_house(tmp_path) as scene:
        first, second = await scene.submit(name="first"), await scene.submit(name="second")
        after_first, after_second = await scene.submit(after="first"), await scene.submit(after="second")
        await scene.rest()
        assert (await scene.now(after_first)).phase is Phase.QUEUED
        scene.containers.exit(workload_id(first), 0)
        scene.containers.exit(workload_id(second), 1)
        await scene.rest()
        assert (await scene.now(after_first)).phase is Phase.RUNNING
        assert (await scene.now(after_second)).outcome is Outcome.FAILED


async def test_a_loop_that_fails_says_so_backs_off_and_goes_on():
    failures = iter([ValueError("disk on fire"), None])

    async def turn():
        if (error := next(failures)) is not None:
            raise error

    loop = Loop("burning", turn, asyncio.Event(), every_s=1)
    await loop.once()
    assert loop.failing == "disk on fire"
    await loop.once()
    assert loop.failing is None


@pytest.mark.parametrize("later", range(6))
async def test_a_loop_that_is_ended_in_the_moment_its_bell_rings_ends(later):
    async def turn() -> None:
        return None

    bell = asyncio.Event()
    running = asyncio.create_task(Loop("rung", turn, bell, every_s=0.02).run())
    await asyncio.sleep(0.01)
    bell.set()
    for _ in range(later):
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=2)
    running.cancel()
    assert done == {running}
