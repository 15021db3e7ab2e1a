"""Which session a process is of, as the server knows it by itself: a number that comes again is somebody else's."""
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from house_scene import Scene, a_house

from gpufairy.core.errors import EngineSilent
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.main.own_host import SessionPids
from gpufairy.node.processes import stat_of


class TellingEngine:
    def __init__(self) -> None:
        self.pids: dict[WorkloadId, list[int]] | None = {}

    async def pids_of_all(self) -> dict[WorkloadId, list[int]]:
        if self.pids is None:
            raise EngineSilent("docker gave no answer")
        return self.pids


@pytest.fixture
async def scene(tmp_path) -> AsyncIterator[Scene]:
    async with a_house(tmp_path) as made:
        await made.house.registry.ensure_user("ann")
        yield made


async def a_running_session(scene: Scene) -> Session:
    session = await scene.submit()
    await scene.rest()
    return await scene.now(session)


@contextmanager
def sleeping() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "1000"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def start_of(pid: int) -> int:
    stat = stat_of(pid)
    assert stat is not None
    return stat.start_ticks


def told_of(scene: Scene, engine: TellingEngine) -> SessionPids:
    return SessionPids(scene.house, engine, 0.0)  # type: ignore[arg-type]


async def test_a_process_is_its_sessions_by_number_and_start(scene: Scene):
    session, engine = await a_running_session(scene), TellingEngine()
    pids = told_of(scene, engine)
    with sleeping() as pid:
        engine.pids = {workload_id(session): [pid]}
        assert await pids.by_session() == {session.id: [pid]}
        assert await pids.by_gpu() == {session.seat.gpus[0].uuid: [pid]}
        found = pids.session_of(pid, start_of(pid))
        assert found is not None
        assert (found.session_id, found.owner) == (session.id, "ann")
        assert pids.session_of(pid, start_of(pid) + 1) is None, "the number came again"


async def test_a_session_that_has_ended_has_no_processes_though_its_engine_is_silent(scene: Scene):
    session, engine = await a_running_session(scene), TellingEngine()
    pids = told_of(scene, engine)
    with sleeping() as pid:
        engine.pids = {workload_id(session): [pid]}
        await pids.by_session()
        engine.pids = None
        assert await pids.by_session() == {session.id: [pid]}, "silence is no end"
        await scene.stop(session)
        await scene.rest()
        assert await pids.by_session() == {}
        assert await pids.by_gpu() == {}
        assert pids.session_of(pid, start_of(pid)) is None


async def test_a_process_that_ended_is_not_told_again_while_the_engine_is_silent(scene: Scene):
    session, engine = await a_running_session(scene), TellingEngine()
    pids = told_of(scene, engine)
    with sleeping() as first:
        with sleeping() as second:
            engine.pids = {workload_id(session): [first, second]}
            await pids.by_session()
        engine.pids = None
        assert await pids.by_session() == {session.id: [first]}
