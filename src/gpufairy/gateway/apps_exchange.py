"""One request passed on to an app and its answer passed back: streamed both ways, at the speed of the slower side."""
import asyncio
import contextlib
from enum import Enum, auto

import h11

from gpufairy.gateway.apps_heads import Head, to_app, to_browser, upgrade_fields
from gpufairy.gateway.apps_peer import Event, Gone, Peer

SWITCHING = 101


class How(Enum):
    """How an exchange has ended."""

    ANSWERED = auto()
    SWITCHED = auto()  # to WebSocket: raw bytes from here on


async def exchange(browser: Peer, app: Peer, head: Head, *, last: bool) -> How:
    """Raises Gone: one side left. `last`: no further request is taken on the browser's connection."""
    await app.send(h11.Request(method=head.method, target=head.target, headers=to_app(head)))
    sending = asyncio.ensure_future(pass_request(browser, app))
    answering = asyncio.ensure_future(pass_answer(app, browser, last=last))
    try:
        await asyncio.wait([sending, answering], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and sending.exception() is not None:
            sending.result()
        # An app may answer before it has read everything, and then it is the answer that counts.
        return await answering
    finally:
        sending.cancel()
        answering.cancel()
        await asyncio.gather(sending, answering, return_exceptions=True)


async def pass_request(browser: Peer, app: Peer) -> None:
    """The body; then it watches, so that an app does not work on for a browser that has left. Raises Gone when it has."""
    while True:
        event = await browser.next_event()
        if isinstance(event, h11.ConnectionClosed):
            raise Gone
        if event is h11.PAUSED:
            break
        if not await passed(app, event):
            break
        if isinstance(event, h11.EndOfMessage):
            break
    await browser.until_gone()
    await asyncio.Event().wait()  # it has sent its next request ahead: that is for later


async def passed(app: Peer, event: Event) -> bool:
    """False: the app takes no more, and may have answered why."""
    try:
        await app.send(event)
    except Gone:
        return False
    return True


async def pass_answer(app: Peer, browser: Peer, *, last: bool) -> How:
    """Raises Gone, or h11.RemoteProtocolError if the app speaks no HTTP."""
    while True:
        event = await app.next_event()
        if isinstance(event, h11.InformationalResponse) and event.status_code == SWITCHING:
            fields = [*to_browser(event.headers), *upgrade_fields()]
            await browser.send(h11.InformationalResponse(status_code=SWITCHING, headers=fields, reason=event.reason))
            return How.SWITCHED
        if isinstance(event, h11.InformationalResponse | h11.Response):
            await pass_head(event, browser, last=last)
        elif isinstance(event, h11.Data):
            await browser.send(event)
        elif isinstance(event, h11.EndOfMessage):
            with contextlib.suppress(h11.LocalProtocolError):  # shorter than it said: the browser is told by the end of the connection
                await browser.send(h11.EndOfMessage())
            return How.ANSWERED
        else:
            raise Gone


async def pass_head(event: Event, browser: Peer, *, last: bool) -> None:
    fields = to_browser(event.headers)
    if isinstance(event, h11.Response):
        closing = [(b"connection", b"close")] if last else []
        await browser.send(h11.Response(status_code=event.status_code, headers=[*fields, *closing], reason=event.reason))
    else:
        await browser.send(h11.InformationalResponse(status_code=event.status_code, headers=fields, reason=event.reason))
