"""Following: a session's log over all its attempts, for as long as it lives and its reader may read; and waiting for it to change.

A stream is looked at every two seconds even if nothing comes, so that it ends when its reader's rights do.
"""
import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from gpufairy.control.bell import rung
from gpufairy.control.house import House
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId

SIGN_OF_LIFE_S = 15.0  # a quiet stream sends one so often, so that proxies keep it
LOOK_S = 2.0  # whoever is shut out is gone within 5 s, however busy the server
STARTED = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.LOST)


async def while_allowed(chunks: AsyncIterator[bytes], allowed: Callable[[], bool], leaving: asyncio.Event) -> AsyncIterator[bytes]:
    """Ends when its reader may no longer read (a token revoked or expired, a user shut out, rights taken away), or the server leaves."""
    async with aclosing(ticking(chunks, LOOK_S, leaving)) as ticked:
        async for chunk in ticked:
            if leaving.is_set() or not allowed():
                return
            if chunk:
                yield chunk


async def ticking(chunks: AsyncIterator[bytes], every_s: float, hurry: asyncio.Event) -> AsyncGenerator[bytes, None]:
    """What comes, and an empty chunk whenever nothing came for so long, or `hurry` is set."""
    coming: asyncio.Future[bytes | None] | None = None
    hurried = asyncio.ensure_future(hurry.wait())
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(chunks, None))
            awaited: list[asyncio.Future[Any]] = [coming] if hurried.done() else [coming, hurried]
            await asyncio.wait(awaited, timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                yield b""
                continue
            chunk, coming = coming.result(), None
            if chunk is None:
                return
            yield chunk
    finally:
        hurried.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def all_logs(
    house: House, session_id: str, follow: bool, from_bytes: int = 0, *, this_attempt: bool = False
) -> AsyncIterator[bytes]:
    """The logs of its attempts, one after the other, from that offset on. Following ends with the session, or with the attempt of now."""
    attempt, last = 0, None
    with house.bells.listen(session_id) as bell:
        while True:
            bell.clear()
            session = await current(house, session_id)
            if session is None or attempt == last:
                return
            if last is None and this_attempt:
                last = session.attempt if session.phase is not Phase.QUEUED else session.attempt - 1
            if attempt == session.attempt:
                if not follow or session.phase is Phase.ENDED:
                    return
                await rung(bell, SIGN_OF_LIFE_S)
                continue
            attempt += 1
            workload = WorkloadId(session_id, attempt)
            live = follow and await is_under_way(house, workload, bell)
            if attempt < session.attempt and (size := await house.engine.log_size(workload)) <= from_bytes:
                from_bytes -= size
                continue
            async for chunk in live_log(house, workload, from_bytes) if live else house.engine.logs(workload, False, from_bytes):
                yield chunk
            from_bytes = 0


async def is_under_way(house: House, workload: WorkloadId, bell: asyncio.Event) -> bool:
    """Waits until that attempt has begun. False: it is over already."""
    while (session := await current_attempt(house, workload)) is not None:
        if session.phase in STARTED:
            return True
        await rung(bell, SIGN_OF_LIFE_S)
        bell.clear()
    return False


async def live_log(house: House, workload: WorkloadId, from_bytes: int) -> AsyncIterator[bytes]:
    """As it grows. The engine waits for a log that is not there yet; one whose launch was refused leaves none, and must not keep us."""
    async with aclosing(ticking(house.engine.logs(workload, True, from_bytes), LOOK_S, house.bells.leaving)) as chunks:
        async for chunk in chunks:
            if chunk:
                yield chunk
                break
            if await current_attempt(house, workload) is None:
                # Once more without waiting: it may have printed and ended since the engine's last look.
                async for late in house.engine.logs(workload, False, from_bytes):
                    yield late
                return
        async for chunk in chunks:
            if chunk:
                yield chunk


async def current_attempt(house: House, workload: WorkloadId) -> Session | None:
    """Its session, while that lives and has not begun another attempt."""
    session = await current(house, workload.session_id)
    if session is None or session.phase is Phase.ENDED or session.attempt != workload.attempt:
        return None
    return session


async def current(house: House, session_id: str) -> Session | None:
    return house.book.get(session_id) or await house.store.sessions.get(session_id)


async def changed(house: House, session: Session, seconds: float) -> Session:
    """The session when it is no longer as it was, or as it is when the time is up."""
    with house.bells.listen(session.id) as bell:
        now = house.book.get(session.id)
        if now is not None and now.revision == session.revision:
            await rung(bell, seconds)
    return await current(house, session.id) or session
