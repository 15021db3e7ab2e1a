"""Live: tells open pages that something has changed, so that they ask for it again. Nothing of anybody's is in the stream itself.

A page is told at once of what it is about; of all else it learns at the next tick. Many pages are never told in the same instant.
"""
import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from random import random

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from gpufairy.control.bell import all_of, rung
from gpufairy.control.find import may_see
from gpufairy.control.follow import while_allowed
from gpufairy.control.house import House
from gpufairy.control.links import PAGE_COOKIE
from gpufairy.control.registry import Caller
from gpufairy.core.errors import NotSignedIn
from gpufairy.web.forms import caller_of
from gpufairy.web.pages import ANYTHING

TICK_S = 5.0  # readings are new so often; and a browser that hears nothing for three of them knows that it is cut off
LEAST_GAP_S = 1.0  # between two changes that a page is told of: a busy queue changes a hundred times a second
# What a change is spread over, for each page that is told of it: about four times what the answer takes, so that pages which
# look again leave three quarters of the server to others, and sign-in among them.
SPREAD_EACH_S = 0.02
RETRY_S, RETRY_EACH_S, LONGEST_RETRY_S = 2.0, 0.01, 15.0  # when a page that lost us comes back: all of them over so long a time


def add_live(router: APIRouter, house: House) -> None:
    @router.get("/live")
    async def live(request: Request) -> StreamingResponse:
        request.state.give_back = house.streams.take(caller_of(request).user.name)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second: for proxies that gather what they send
        chunks = while_allowed(stream(house, request), partial(still_signed_in, house, request), house.bells.leaving)
        return StreamingResponse(chunks, media_type="text/event-stream", headers=headers)


async def stream(house: House, request: Request) -> AsyncIterator[bytes]:
    bells, followed = house.bells, followed_by(house, caller_of(request), request.query_params)
    with bells.listen(followed) as bell:
        if missed(house, followed, request.query_params):
            bell.set()
        yield told(house, "hello")
        while not bells.leaving.is_set():
            changed = await rung(bell, TICK_S)
            if changed:
                await rests(house, random() * spread_s(bells.listeners(followed)))
            if bells.leaving.is_set() or not still_signed_in(house, request):
                return
            bell.clear()  # before they look, and before the gap: what changes in it is told when it is over
            yield told(house, "changed" if changed else "tick")
            if changed:
                await rests(house, LEAST_GAP_S)


def told(house: House, event: str) -> bytes:
    return f"retry: {1000 * retry_s(house.bells.listening()):.0f}\nevent: {event}\ndata: 1\n\n".encode()


def followed_by(house: House, caller: Caller, query: Mapping[str, str]) -> str | None:
    """What the page is about: a session, all of one's own, or None: anything. Of another's session nobody is told when it changes."""
    wanted = query.get("of", ANYTHING)
    if wanted == ANYTHING:
        return None
    session = house.book.get(wanted)
    return wanted if session is not None and may_see(caller, session) else all_of(caller.user.name)


def missed(house: House, followed: str | None, query: Mapping[str, str]) -> bool:
    """Whether it has changed since the page was made, by the count of changes that the page was sent with."""
    seen = query.get("seen", "")
    return len(seen) < 20 and seen.isdecimal() and house.bells.changed_since(followed, int(seen))


def spread_s(pages: int) -> float:
    """One page is told at once."""
    return min(TICK_S, SPREAD_EACH_S * (pages - 1))


def retry_s(pages: int) -> float:
    """Each page another: else all would come back in the same instant when the server has been started again."""
    return RETRY_S + random() * min(LONGEST_RETRY_S, max(1.0, RETRY_EACH_S * pages))


async def rests(house: House, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await house.bells.leaving.wait()


def still_signed_in(house: House, request: Request) -> bool:
    try:
        house.registry.caller(request.cookies.get(PAGE_COOKIE, ""))
    except NotSignedIn:
        return False
    return True
