"""The floor that the place loop keeps: in step with the book from pass to pass, and wise from the start after a restart."""
import gc

import pytest
from house_scene import a_house

from gpufairy.control import collector
from gpufairy.control.place import place_waiting
from gpufairy.core.lifecycle import Phase
from gpufairy.core.workload import workload_id


async def test_one_floor_serves_all_passes_and_knows_who_has_left(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        floor = scene.house.floor
        first, second, third = [await scene.submit() for _ in range(3)]
        await scene.rest()
        assert (await scene.now(third)).phase is Phase.QUEUED
        scene.containers.exit(workload_id(first), 0)
        await scene.rest()
        assert [(await scene.now(one)).phase for one in (second, third)] == [Phase.RUNNING, Phase.RUNNING]
        assert scene.house.floor is floor
        await place_waiting(scene.house)
        assert floor.rooms == scene.house.cluster().rooms()


async def test_a_restarted_server_knows_what_was_asked_for(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        ended = await scene.submit(gpus="0.5")
        await scene.rest()
        scene.containers.exit(workload_id(ended), 0)
        await scene.rest()
        running = await scene.submit(gpus="0.25")
        await scene.rest()
        containers = scene.containers
    async with a_house(tmp_path, containers, gpus=1) as scene:
        asked = [request.share for request in scene.house.floor._past]
        assert asked == [ended.request.share, running.request.share]


def test_the_collector_is_put_off_and_on_again_even_after_a_fault():
    def fail() -> None:
        with collector.put_off():
            seen.append(gc.isenabled())
            with collector.put_off():
                seen.append(gc.isenabled())
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    seen = [gc.isenabled()]
    with pytest.raises(ZeroDivisionError):
        fail()
    assert [*seen, gc.isenabled()] == [True, False, False, False, True]
