"""Waiting for an engine to show something, instead of sleeping and hoping."""
# ruff: noqa: ASYNC110  (a test may block: it has its event loop to itself)
import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadState, workload_id
from gpufairy.engines.contract import Engine
from gpufairy.engines.proc import stat_of

PATIENCE_S = 20


@asynccontextmanager
async def started(engine: Engine) -> AsyncIterator[Engine]:
    await engine.start(lambda: None)
    try:
        yield engine
    finally:
        await engine.close()


async def stop_all(engine: Engine) -> None:
    """Wait for them too: what an engine started in this process, only this process can reap."""
    for workload in await engine.list_mine():
        await engine.stop(workload.id, timedelta(0))
    async with asyncio.timeout(PATIENCE_S):
        while any(workload.alive for workload in await engine.list_mine()):
            await asyncio.sleep(0.005)


def is_running(pid: int) -> bool:
    """Not gone and no zombie: those wait for a parent that may take its time."""
    stat = stat_of(pid)
    return stat is not None and not stat.zombie


async def seen(engine: Engine, session: Session) -> Workload | None:
    return next((workload for workload in await engine.list_mine() if workload.id == workload_id(session)), None)


async def until(claim: Callable[[], object]) -> None:
    """Polls, for what has no notice: a file, a process."""
    async with asyncio.timeout(PATIENCE_S):
        while not claim():
            await asyncio.sleep(0.005)


async def until_it(engine: Engine, session: Session, is_so: Callable[[Workload], bool]) -> Workload:
    async with asyncio.timeout(PATIENCE_S):
        while (found := await seen(engine, session)) is None or not is_so(found):
            await asyncio.sleep(0.005)
        return found


async def until_state(engine: Engine, session: Session, state: WorkloadState) -> Workload:
    return await until_it(engine, session, lambda found: found.state is state)


async def until_running(engine: Engine, session: Session) -> Workload:
    return await until_state(engine, session, WorkloadState.RUNNING)


async def until_exited(engine: Engine, session: Session) -> Workload:
    return await until_state(engine, session, WorkloadState.EXITED)


async def whole_log(engine: Engine, session: Session, follow: bool = True) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return b"".join([chunk async for chunk in engine.logs(workload_id(session), follow)])


async def whole_results(engine: Engine, session: Session) -> bytes:
    return b"".join([chunk async for chunk in engine.results(workload_id(session))])


async def read_to_end(descriptor: int) -> bytes:
    """Until the other side is closed; a terminal says that with an error."""

    def blocking() -> bytes:
        read = b""
        try:
            while chunk := os.read(descriptor, 65536):
                read += chunk
        except OSError:
            return read
        return read

    return await asyncio.wait_for(asyncio.to_thread(blocking), PATIENCE_S)
