"""Gangs on a whole house: submitted with --together, they start in one write, or wait in one."""
import pytest
from house_scene import ANN, a_house

from gpufairy.control.door import submit
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, NeverFits
from gpufairy.core.lifecycle import Phase
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


async def test_a_gang_that_can_never_be_there_at_once_is_refused(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        with pytest.raises(NeverFits, match="hold 2 of these at once, 3 asked"):
            await a_gang(scene, 3)
        with pytest.raises(BadInput, match="together: goes with a count"):
            await submit(scene.house, Caller(ANN, "full"), a_body(together=True), {}, None)
