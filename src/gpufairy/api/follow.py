"""Streams that go on while something lives: a session's log over all its attempts, and the events of all one may see."""
import asyncio
import json
from collections.abc import AsyncIterator

from gpufairy.api.shapes import event_shape
from gpufairy.control.house import House
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId

LOOK_AGAIN_S = 15.0  # a quiet stream sends a sign of life so often, so that proxies keep it
STARTED = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.LOST)


async def all_logs(house: House, session_id: str, follow: bool) -> AsyncIterator[bytes]:
    """The logs of its attempts in order. Following ends when the session has ended, not when an attempt has."""
    attempt = 0
    while (session := await current(house, session_id)) is not None:
        while attempt < session.attempt:
            attempt += 1
            live = follow and await is_under_way(house, session_id, attempt)
            async for chunk in house.engine.logs(WorkloadId(session_id, attempt), live):
                yield chunk
        if not follow or session.phase is Phase.ENDED:
            return
        await house.bells.wait_for(session_id, LOOK_AGAIN_S)


async def is_under_way(house: House, session_id: str, attempt: int) -> bool:
    """Waits until that attempt has begun. False: it is over already."""
    while (session := await current(house, session_id)) is not None and session.attempt == attempt:
        if session.phase in STARTED:
            return True
        if session.phase is Phase.ENDED:
            return False
        await house.bells.wait_for(session_id, LOOK_AGAIN_S)
    return False


async def current(house: House, session_id: str) -> Session | None:
    return house.book.get(session_id) or await house.store.sessions.get(session_id)


async def event_stream(house: House, owner: str | None, after: int) -> AsyncIterator[str]:
    """Server-sent events from `after` on; a client that comes back sends Last-Event-ID and misses nothing."""
    yield ": hello\n\n"
    while True:
        events = await house.store.events.page(after=after, limit=500, owner=owner)
        for event in events:
            yield f"id: {event.number}\nevent: session\ndata: {json.dumps(event_shape(event))}\n\n"
            after = event.number
        if not events:
            before = asyncio.get_running_loop().time()
            await house.bells.wait_for(None, LOOK_AGAIN_S)
            if asyncio.get_running_loop().time() - before >= LOOK_AGAIN_S:
                yield ": still here\n\n"
