"""Through the door of a process session, by somebody else than its engine: as the SSH gateway does it."""
import asyncio
import os
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from engine_waits import PATIENCE_S, is_running, read_to_end, started, stop_all, until, until_exited, until_running

from builders import a_node, a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.engines.contract import Command, Credentials, Door, DoorKind
from gpufairy.engines.doors import connect_door, open_door
from gpufairy.engines.proc import stat_of
from gpufairy.engines.process import ProcessEngine

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

AT_ONCE = timedelta(0)


def an_engine(folder: Path) -> ProcessEngine:
    return ProcessEngine(folder, a_node(), lambda _: Credentials("http://127.0.0.1:8420", "secret-token"))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ProcessEngine]:
    async with started(an_engine(tmp_path)) as running:
        yield running
        await stop_all(running)


async def a_running(engine: ProcessEngine) -> WorkloadId:
    session = a_session(env=(("SEED", "7"),))
    await engine.launch(session)
    await until_running(engine, session)
    return workload_id(session)


async def test_a_command_opened_by_the_door_has_the_sessions_surroundings(engine: ProcessEngine):
    workload = await a_running(engine)
    stream = await open_door(await engine.door(workload), Command(("sh", "-c", "echo $SEED $MORE $FAIRY_TOKEN_FILE; pwd"), env=(("MORE", "8"), ("FAIRY_TOKEN_FILE", "no"))))
    words, folder = (await read_to_end(stream.stdout)).decode().splitlines()
    assert words.startswith("7 8 /")
    assert "/home/" in folder
    assert await stream.wait() == 0
    await stream.close()


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_others_opened_in_a_session_ends_with_it(tmp_path: Path, restarted: bool):
    async with started(an_engine(tmp_path)) as first:
        workload = await a_running(first)
        door = await first.door(workload)
        if not restarted:
            await assert_opened_ends(first, workload, door)
    if restarted:
        async with started(an_engine(tmp_path)) as second:
            await assert_opened_ends(second, workload, door)


async def assert_opened_ends(engine: ProcessEngine, workload: WorkloadId, door: Door) -> None:
    stream = await open_door(door, Command(("sh", "-c", "setsid sleep 1000 & echo $!; sleep 1000")))
    away = int(os.read(stream.stdout, 100))
    await engine.stop(workload, AT_ONCE)
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) > 128
    await until(lambda: not is_running(away))
    await stream.close()


async def test_what_others_opened_is_counted_to_the_session(engine: ProcessEngine):
    workload = await a_running(engine)
    stream = await open_door(await engine.door(workload), Command(("sh", "-c", "echo $$; exec sleep 1000")))
    pid = int(os.read(stream.stdout, 100))
    async with asyncio.timeout(PATIENCE_S):
        while pid not in await engine.pids(workload):  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.05)
    await stream.close()


async def test_another_sessions_end_leaves_it_alone(engine: ProcessEngine):
    spared, doomed = await a_running(engine), await a_running(engine)
    stream = await open_door(await engine.door(spared), Command(("cat",)))
    other = await open_door(await engine.door(doomed), Command(("cat",)))
    await engine.stop(doomed, AT_ONCE)
    await asyncio.wait_for(other.wait(), PATIENCE_S)
    os.write(stream.stdin, b"still here")
    assert os.read(stream.stdout, 100) == b"still here"
    for each in (stream, other):
        await each.close()


async def test_a_unix_socket_is_reached(engine: ProcessEngine, tmp_path: Path):
    workload = await a_running(engine)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        with await engine.connect(workload, str(tmp_path / "s")) as connected:
            assert connected.getblocking()
            with server.accept()[0] as accepted:
                accepted.sendall(b"hello")
            assert connected.recv(10) == b"hello"


async def test_an_exited_session_has_no_door(engine: ProcessEngine):
    session = a_session("true")
    await engine.launch(session)
    await until_exited(engine, session)
    with pytest.raises(EngineRefused):
        await engine.door(workload_id(session))


async def test_a_porter_that_is_no_longer_there_is_refused():
    gone = Door(DoorKind.PORTER, "/", "/bin/sh", pid=2**22 - 1, birth_ticks=1)
    with pytest.raises(EngineRefused, match="no longer there"):
        await open_door(gone, Command(("true",)))
    with pytest.raises(EngineRefused, match="no longer there"):
        await connect_door(gone, 80)


async def test_a_process_that_is_no_porter_is_refused():
    us = Door(DoorKind.PORTER, "/", "/bin/sh", pid=os.getpid(), birth_ticks=stat_of(os.getpid()).start_ticks)
    with pytest.raises(EngineRefused, match="porter gives no answer"):
        await open_door(us, Command(("true",)))


@pytest.mark.parametrize("kind", DoorKind)
async def test_no_command_is_refused(kind: DoorKind):
    with pytest.raises(EngineRefused):
        await open_door(Door(kind, "/", "/bin/sh"), Command(()))
