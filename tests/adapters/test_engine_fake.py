"""The fake engine fails on order, so that journeys can see what the server makes of it."""
import asyncio
from datetime import timedelta

import pytest
from engine_waits import seen, started, whole_log

from builders import a_node, a_session
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.workload import WorkloadState, workload_id
from gpufairy.engines.fake import FakeContainers, FakeEngine


def an_engine(**orders) -> FakeEngine:
    return FakeEngine((a_node(),), FakeContainers(**orders))


async def test_it_refuses_as_often_as_it_is_told_to():
    session = a_session("true")
    async with started(an_engine(refuse_next=["no disk", "no luck"])) as engine:
        for words in ("no disk", "no luck"):
            with pytest.raises(EngineRefused, match=words):
                await engine.launch(session)
        await engine.launch(session)
        assert await seen(engine, session) is not None


async def test_a_lost_answer_is_a_launch_that_happened():
    session = a_session("sleep", "1000")
    async with started(an_engine(lose_answers=1)) as engine:
        with pytest.raises(EngineSilent):
            await engine.launch(session)
        await engine.launch(session)
        assert engine.containers.launches == [workload_id(session)]


async def test_while_silent_it_answers_nothing():
    async with started(an_engine(silent="unplugged")) as engine:
        for call in (engine.list_mine, engine.nodes):
            with pytest.raises(EngineSilent, match="unplugged"):
                await call()
        engine.containers.silent = ""
        assert await engine.list_mine() == []


async def test_a_test_ends_a_workload_when_it_likes_and_the_server_is_told():
    session, changed = a_session("python", "train.py"), asyncio.Event()
    engine = an_engine()
    await engine.start(changed.set)
    await engine.launch(session)
    changed.clear()
    engine.containers.exit(workload_id(session), 9, "out of memory")
    assert changed.is_set()
    found = await seen(engine, session)
    assert (found.exit_code, found.why) == (9, "out of memory")
    await engine.close()


async def test_a_slow_start_shows_until_it_begins():
    session = a_session("sleep", "1000")
    async with started(an_engine(slow_start=True)) as engine:
        await engine.launch(session)
        assert (await seen(engine, session)).state is WorkloadState.STARTING
        engine.containers.begin(workload_id(session))
        assert (await seen(engine, session)).state is WorkloadState.RUNNING


async def test_one_that_cannot_be_killed_stays():
    session = a_session("sleep", "1000")
    async with started(an_engine(deaf=True)) as engine:
        await engine.launch(session)
        await engine.stop(workload_id(session), timedelta(0))
        assert (await seen(engine, session)).alive


async def test_what_is_written_reaches_a_follower():
    session = a_session("python", "train.py")
    async with started(an_engine()) as engine:
        await engine.launch(session)
        following = asyncio.create_task(whole_log(engine, session))
        await asyncio.sleep(0)
        engine.containers.write(workload_id(session), b"epoch 1\n")
        engine.containers.exit(workload_id(session), 0)
        assert await following == b"epoch 1\n"


async def test_one_that_vanishes_leaves_no_trace():
    session = a_session("sleep", "1000")
    async with started(an_engine()) as engine:
        await engine.launch(session)
        engine.containers.vanish(workload_id(session))
        assert await engine.list_mine() == []
