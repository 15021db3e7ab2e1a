"""Forecasts on a whole house: learnt from sessions that end, also over a restart, and told with what would help."""
from datetime import timedelta

import pytest
from house_scene import ANN, a_house

from builders import NOW
from gpufairy.control.clock import HeldClock
from gpufairy.control.find import wait_of
from gpufairy.control.registry import Caller
from gpufairy.core.people import Role, User
from gpufairy.core.workload import workload_id
from gpufairy.engines.fake import FakeContainers

pytestmark = pytest.mark.slow

MINUTE = timedelta(minutes=1)


async def past_runs(scene, minutes, count=6):
    for _ in range(count):
        session = await scene.submit(gpus="1")
        await scene.rest()
        scene.clock.go_on(minutes * MINUTE)
        scene.containers.exit(workload_id(session), 0)
        await scene.rest()


async def test_a_session_without_a_limit_is_forecast_from_those_before_it(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        await past_runs(scene, 40)
        await scene.submit(name="first")
        waiting = await scene.submit(name="second")
        await scene.rest()
        wait = wait_of(scene.house, await scene.now(waiting))
        assert wait.forecast_start == scene.clock() + 40 * MINUTE
        assert wait.forecast_low <= wait.forecast_start <= wait.forecast_high
        assert "when ann's first ends" in wait.forecast_why
        assert wait.own_time.startswith("without --time it is taken to run 40 min")


async def test_what_was_learnt_is_learnt_again_after_a_restart(tmp_path):
    containers, clock = FakeContainers(), HeldClock(NOW)
    async with a_house(tmp_path, containers, clock, gpus=1) as scene:
        await past_runs(scene, 40)
        known = scene.house.run_times.of("ann", None)
    async with a_house(tmp_path, containers, clock, gpus=1) as scene:
        assert scene.house.run_times.of("ann", None) == known
        assert known.typical == 40 * MINUTE
        assert scene.house.cluster().run_times is scene.house.run_times


async def test_what_would_help_is_told_and_then_does(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        await scene.submit(name="holder", time="2h")
        waiting = await scene.submit(name="big", gpus="2")
        await scene.rest()
        assert wait_of(scene.house, await scene.now(waiting)).helps == ("With --gpus 1 it would start now.",)
        await scene.stop(waiting)
        smaller = await scene.submit(name="small", gpus="1")
        await scene.rest()
        assert (await scene.now(smaller)).state == "RUNNING"


async def test_names_of_sessions_are_for_their_owners_and_admins_alone(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        await scene.submit(name="secret-work", time="1h")
        waiting = await scene.submit(name="next")
        await scene.rest()
        session = await scene.now(waiting)
        of_others = wait_of(scene.house, session, Caller(User("bob", Role.USER, NOW), "full"))
        assert "secret-work" not in str(of_others)
        assert "a session of ann" in of_others.forecast_why
        for may_know in (Caller(ANN, "full"), Caller(User("root", Role.ADMIN, NOW), "full")):
            assert "secret-work" in wait_of(scene.house, session, may_know).forecast_why


async def test_how_forecasts_turned_out_is_learnt(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        for _ in range(30):
            holder = await scene.submit(time="10m")
            waiting = await scene.submit(time="10m")
            await scene.rest()
            wait_of(scene.house, await scene.now(waiting))
            await scene.later(10 * MINUTE)
            assert (await scene.now(holder)).state == "ENDED"
            await scene.stop(waiting)
            await scene.rest()
        assert len(scene.house.track_record._told) == 0
