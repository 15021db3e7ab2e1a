"""A browser's connection to an app, from its first request to its end: who it is, whether it may, and what it is told if not."""
import asyncio

import h11

from gpufairy.core.apps import Stall, app_named
from gpufairy.core.errors import EngineRefused, FairyError
from gpufairy.engines.doors import connect_door
from gpufairy.gateway.apps_exchange import How, exchange
from gpufairy.gateway.apps_heads import Head, comes_from_elsewhere, fault
from gpufairy.gateway.apps_pages import FIELDS, Page, Said, bad_answer, bad_request, no_session, starting
from gpufairy.gateway.apps_peer import Event, Gone, Peer, join, peer_on
from gpufairy.gateway.apps_street import Street

HEAD_S = 15.0  # to the end of a request's head, from the connection or from the last answer
STALE_S = 2.0  # an app's connection that rested for longer may be closed by it at this very moment


class Visit:
    def __init__(self, street: Street, browser: Peer, port: int) -> None:
        self._street, self._browser, self._port = street, browser, port
        self._app: Peer | None = None
        self._rested_since = 0.0
        self.stall: Stall | None = None  # the app that it is signed in to
        self.token_id: str | None = None  # and by which token, if by one
        self.resting = True  # between two requests

    async def run(self) -> None:
        """Until either side ends it."""
        try:
            while await self._one_request():
                pass
        except (Gone, h11.ProtocolError):
            pass
        finally:
            if self._app is not None:
                self._app.abort()
            await self._browser.close()

    @property
    def source(self) -> str:
        return self._browser.source

    def cut(self) -> None:
        self._browser.abort()
        if self._app is not None:
            self._app.abort()

    async def _one_request(self) -> bool:
        """Whether another may follow."""
        self.resting = True
        try:
            async with asyncio.timeout(HEAD_S):
                request = await self._browser.next_event()
        except TimeoutError:
            return False
        except h11.RemoteProtocolError as error:
            return await self._say((Said.TOO_LARGE if error.error_status_hint == 431 else Said.NO_HTTP).value)
        if not isinstance(request, h11.Request):
            return False
        self.resting = False
        return await self._answer(Head(request.method, request.target, list(request.headers), self._browser.source))

    async def _answer(self, head: Head) -> bool:
        if (words := fault(head)) is not None:
            return await self._say(bad_request(words))
        stall = await self._street.stall_at(self._port, head.host)
        if stall is None:
            return await self._say(Said.NOTHING_HERE.value)
        if head.ticket is not None:
            return await self._let_in(stall, head, head.ticket)
        cookie = self._street.jar.knows(stall, head.cookies)
        if cookie is None:
            return await self._say(Said.NO_TICKET.value)
        if comes_from_elsewhere(head):
            return await self._say(Said.ELSEWHERE.value)
        if not self._street.signed_in(self, stall, cookie.token_id):
            return await self._say(Said.FULL.value)
        return await self._pass_on(stall, head)

    async def _let_in(self, stall: Stall, head: Head, ticket: str) -> bool:
        if head.looks_ahead:
            return await self._say(Said.LOOKED_AHEAD.value)
        try:
            token_id = await self._street.house.redeem(ticket, stall)
        except FairyError:
            return await self._say(Said.USED.value)
        cookie = self._street.jar.sign_in(stall, token_id, secure=head.secure)
        fields = [*FIELDS[1:], (b"location", b"/"), (b"set-cookie", cookie), (b"content-length", b"0"), (b"connection", b"close")]
        if stall.host is None:
            # The port was another session's before, whose page may have left a worker in the browser that would answer in our stead.
            fields.append((b"clear-site-data", b'"storage"'))
        return await self._send(h11.Response(status_code=303, headers=fields, reason=b"See Other"), b"")

    async def _pass_on(self, stall: Stall, head: Head) -> bool:
        try:
            app = await self._app_of(stall)
        except EngineRefused:
            return await self._say(starting(app_named(stall.app), stall.session))
        except FairyError as error:
            return await self._say(no_session(error.detail))
        try:
            how = await exchange(self._browser, app, head, last=self._street.closing)
        except (Gone, h11.RemoteProtocolError):
            if self._browser.begun_answering or self._browser.has_ended:
                raise
            return await self._say(bad_answer(app_named(stall.app)))
        if how is How.SWITCHED:
            await join(self._browser, app)
            return False
        return self._rest(app)

    async def _app_of(self, stall: Stall) -> Peer:
        """The connection of the last request, if it is fresh; else a new one. Raises EngineRefused: nobody listens there."""
        now, app = asyncio.get_running_loop().time(), self._app
        if app is not None and not app.has_ended and now - self._rested_since < STALE_S:
            return app
        if app is not None:
            app.abort()
        self._app = None
        door = await self._street.door_of(stall)
        try:
            self._app = await peer_on(await connect_door(door, stall.inside))
        except EngineRefused:
            self._street.forget_door(stall)
            raise
        return self._app

    def _rest(self, app: Peer) -> bool:
        """Whether the browser's connection serves on; the app's may too, on its own."""
        self._rested_since = asyncio.get_running_loop().time()
        if not app.next_cycle():
            app.abort()
            self._app = None
        return self._browser.next_cycle() and not self._street.closing

    async def _say(self, page: Page) -> bool:
        answer = h11.Response(status_code=page.status, headers=page.fields, reason=b"")
        return await self._send(answer, page.body)

    async def _send(self, answer: Event, body: bytes) -> bool:
        """The last thing said on this connection: what it has sent besides is not read."""
        await self._browser.send(answer)
        if body:
            await self._browser.send(h11.Data(data=body))
        await self._browser.send(h11.EndOfMessage())
        return False
