"""Gangs on a whole house: submitted with --together, they start in one write, or wait in one."""
from datetime import timedelta

import pytest
from house_scene import ANN, a_house

from gpufairy.control.door import submit
from gpufairy.control.place import place_waiting
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, NeverFits
from gpufairy.core.lifecycle import Phase
from gpufairy.core.steps import noted, send_back
from gpufairy.core.workload import workload_id
from gpufairy.wire.submit import SubmitBody


def a_body(**fields) -> SubmitBody:
    return SubmitBody.model_validate({"command": ["work"], "gpus": "1", "cpus": 0.5, "memory": "1GiB", **fields})


async def a_gang(scene, count: int, **fields):
    return await submit(scene.house, Caller(ANN, "full"), a_body(count=count, together=True, **fields), {}, None)


async def test_a_gang_waits_as_a_whole_and_starts_as_a_whole(tmp_path):
    async with a_house(tmp_path, gpus=3) as scene:
        first = await scene.submit(cpus=0.5, memory="1GiB")
        second = await scene.submit(cpus=0.5, memory="1GiB")
        await scene.rest()
        gang = await a_gang(scene, 3)
        await scene.rest()
        assert {(await scene.now(one)).phase for one in gang} == {Phase.QUEUED}
        await scene.stop(first)
        await scene.rest()
        assert {(await scene.now(one)).phase for one in gang} == {Phase.QUEUED}
        await scene.stop(second)
        await scene.rest()
        assert {(await scene.now(one)).phase for one in gang} == {Phase.RUNNING}


async def test_a_gang_outlives_a_restart_of_the_server(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        blocker = await scene.submit(cpus=0.5, memory="1GiB")
        await scene.rest()
        gang = await a_gang(scene, 2)
        containers, clock = scene.containers, scene.clock
    async with a_house(tmp_path, containers, clock, gpus=2) as scene:
        await scene.rest()
        assert {(await scene.now(one)).phase for one in gang} == {Phase.QUEUED}
        await scene.stop(await scene.now(blocker))
        await scene.rest()
        assert {(await scene.now(one)).phase for one in gang} == {Phase.RUNNING}


async def test_one_that_is_stopped_while_it_waits_leaves_the_others_a_gang(tmp_path):
    async with a_house(tmp_path, gpus=3) as scene:
        blocker = await scene.submit(cpus=0.5, memory="1GiB")
        await scene.rest()
        gang = await a_gang(scene, 3)
        await scene.stop(gang[1])
        await scene.rest()
        assert [(await scene.now(one)).phase for one in gang] == [Phase.RUNNING, Phase.ENDED, Phase.RUNNING]
        assert (await scene.now(blocker)).phase is Phase.RUNNING


async def test_a_gang_that_was_sent_back_starts_again_when_the_last_of_it_has_left(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        gang = await a_gang(scene, 2, preemptible=True)
        await scene.rest()
        first, second = [await scene.now(one) for one in gang]
        scene.containers.deaf = True
        await scene.house.save([send_back(one, scene.clock(), "for others") for one in (first, second)])
        scene.containers.exit(workload_id(first), 143)
        await scene.rest()
        await scene.later(timedelta(seconds=8))
        assert [(await scene.now(one)).phase for one in gang] == [Phase.QUEUED, Phase.STOPPING]
        (refusal,) = scene.house.plan.refusals_of(await scene.now(first))
        assert refusal.why == f"{second.name}, which starts together with it, has not left its place yet"
        scene.containers.exit(workload_id(second), 143)
        await scene.rest()
        await scene.later(timedelta(seconds=8))
        assert [(await scene.now(one)).phase for one in gang] == [Phase.RUNNING] * 2


async def test_a_gang_of_which_the_engine_refuses_one_goes_back_whole_and_is_tried_again_whole(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        scene.containers.refuse_next = ["no such image"]
        gang = await a_gang(scene, 2)
        await scene.rest()
        waiting = [await scene.now(one) for one in gang]
        assert [one.phase for one in waiting] == [Phase.QUEUED] * 2
        assert all("no such image" in one.why for one in waiting)
        assert sorted(one.refusals for one in waiting) == [0, 1]
        assert scene.containers.alive() == []
        await scene.later(timedelta(seconds=6))
        assert [(await scene.now(one)).phase for one in gang] == [Phase.RUNNING] * 2


async def test_nobody_of_a_gang_is_placed_when_one_is_stopped_in_between(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        gang, sessions = await a_gang(scene, 2), scene.house.store.sessions
        save = sessions.save

        async def save_late(changes):
            sessions.save = save
            await scene.stop(gang[1])
            return await save(changes)

        sessions.save = save_late
        await place_waiting(scene.house)
        assert [(await scene.now(one)).phase for one in gang] == [Phase.QUEUED] * 2
        await scene.rest()
        assert [(await scene.now(one)).phase for one in gang] == [Phase.RUNNING, Phase.ENDED]


async def test_nobody_of_a_gang_is_sent_back_when_one_has_changed_meanwhile(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        gang = await a_gang(scene, 2, preemptible=True)
        await scene.rest()
        first, second = [await scene.now(one) for one in gang]
        now = scene.clock()
        await scene.house.save([noted(second, "told", now, "something")])
        assert await scene.house.save([send_back(one, now, "for others") for one in (first, second)]) == []
        assert [(await scene.now(one)).phase for one in gang] == [Phase.RUNNING] * 2


async def test_a_gang_that_can_never_be_there_at_once_is_refused(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        with pytest.raises(NeverFits, match="hold 2 of these at once, 3 asked"):
            await a_gang(scene, 3)
        with pytest.raises(BadInput, match="together: goes with a count"):
            await submit(scene.house, Caller(ANN, "full"), a_body(together=True), {}, None)
