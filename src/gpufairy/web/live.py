"""Live: tells open pages that something has changed, so that they ask for it again. Nothing of anybody's is in the stream itself."""
import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from gpufairy.control.bell import rung
from gpufairy.control.house import House
from gpufairy.control.links import PAGE_COOKIE
from gpufairy.core.errors import NotSignedIn

TICK_S = 5.0  # readings are new so often; and a browser that hears nothing for three of them knows that it is cut off
LEAST_GAP_S = 1.0  # between two changes that a page is told of: a busy queue changes a hundred times a second


def add_live(router: APIRouter, house: House) -> None:
    @router.get("/live")
    async def live(request: Request) -> StreamingResponse:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second: for proxies that gather what they send
        return StreamingResponse(stream(house, request), media_type="text/event-stream", headers=headers)


async def stream(house: House, request: Request) -> AsyncIterator[bytes]:
    with house.bells.listen(None) as bell:
        yield b"retry: 2000\nevent: tick\ndata: 0\n\n"
        while not house.bells.leaving.is_set():
            changed = await rung(bell, TICK_S)
            if house.bells.leaving.is_set() or not still_signed_in(house, request):
                return
            bell.clear()  # before they look, and before the gap: what changes in it is told when it is over
            yield b"event: changed\ndata: 1\n\n" if changed else b"event: tick\ndata: 1\n\n"
            if changed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(house.bells.leaving.wait(), LEAST_GAP_S)


def still_signed_in(house: House, request: Request) -> bool:
    try:
        house.registry.caller(request.cookies.get(PAGE_COOKIE, ""))
    except NotSignedIn:
        return False
    return True
