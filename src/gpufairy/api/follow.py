"""The events of all sessions that one may see, as a stream."""
import json
from collections.abc import AsyncIterator

from gpufairy.api.shapes import event_shape
from gpufairy.control.bell import rung
from gpufairy.control.house import House

SIGN_OF_LIFE_S = 15.0  # a quiet stream sends one so often, so that proxies keep it


async def event_stream(house: House, owner: str | None, after: int) -> AsyncIterator[bytes]:
    """Server-sent events from `after` on; a client that comes back sends Last-Event-ID and misses nothing."""
    yield b": hello\n\n"
    with house.bells.listen(None) as bell:
        while True:
            bell.clear()
            events = await house.store.events.page(after=after, limit=500, owner=owner)
            for event in events:
                yield f"id: {event.number}\nevent: session\ndata: {json.dumps(event_shape(event))}\n\n".encode()
                after = event.number
            if not events and not await rung(bell, SIGN_OF_LIFE_S):
                yield b": still here\n\n"
