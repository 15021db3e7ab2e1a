"""What a stranger may cost us before they have said anything: bytes of a head and seconds to send a request, all bounded.

Uvicorn bounds neither with httptools, whose speed we want. Answers may take as long as they like: streams and long polls do.
"""
import asyncio
import socket
import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, ClassVar

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gpufairy.api.problems import problem

NOT_HTTP = problem(400, "Not understood", "this is no HTTP request", "See /docs for what is answered here.")
TOO_MUCH = problem(431, "Too large", "the request's head is larger than 64 KiB, or too many were sent at once", "Send less at a time.")


@dataclass(frozen=True, slots=True)
class Limits:
    head_bytes: int = 64 * 2**10  # a URL, a token and a browser's headers take a few KiB
    head_s: float = 15.0  # from the connection, or the first byte of a further request, to the end of its head
    body_s: float = 60.0  # from there to the end of its body, which is 1 MiB at most
    flush_s: float = 60.0  # to take the rest of an answer on a connection that is being closed
    requests_ahead: int = 32  # sent before the first of them was answered; browsers send none
    of_one_uid: int = 128  # connections by a UNIX socket: a session has all it needs, and never all of our descriptors


class TooMuch(Exception):
    """Thrown through the parser, which then stops: what is left of the bytes at hand is not looked at."""


class Neighbours:
    """Who is connected by a UNIX socket, by the uid that the kernel tells."""

    def __init__(self) -> None:
        self._open: dict[int, set[socket.socket]] = defaultdict(set)

    def has_room(self, uid: int, link: socket.socket, most: int) -> bool:
        """Notes it, unless there are so many already. Those closed are looked for: one that became a WebSocket tells nobody of its end."""
        theirs = self._open[uid]
        if len(theirs) >= most:
            theirs.difference_update([other for other in theirs if other.fileno() < 0])
        if len(theirs) >= most:
            return False
        theirs.add(link)
        return True

    def left(self, uid: int, link: socket.socket) -> None:
        self._open[uid].discard(link)
        if not self._open[uid]:
            del self._open[uid]


class GuardedHttp(HttpToolsProtocol):
    limits: ClassVar[Limits] = Limits()
    neighbours: ClassVar[Neighbours] = Neighbours()

    _deadline: asyncio.TimerHandle | None = None
    _uid: int | None = None  # of a neighbour
    _turned_away = False
    _held_bytes = 0  # came since the parser last passed something on: an unfinished head, or fields after a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own
        link = transport.get_extra_info("socket")
        if link.family == socket.AF_UNIX:
            uid = uid_of(link)
            if not self.neighbours.has_room(uid, link, self.limits.of_one_uid):
                self._turned_away = True
                transport.abort()
                return
            self._uid = uid
        super().connection_made(transport)
        self._give(self.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turned_away:
            return
        self._give(None)
        if self._uid is not None:
            self.neighbours.left(self._uid, self.transport.get_extra_info("socket"))
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Not by way of uvicorn's own, which logs a line for every stranger who sends nonsense."""
        self._unset_keepalive_if_required()
        if self._deadline is None and self._answered:
            self._give(self.limits.head_s)
        self._held_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrade()
        except httptools.HttpParserError as error:
            self._refuse(TOO_MUCH if isinstance(error.__context__, TooMuch) else NOT_HTTP)
        else:
            if self._held_bytes > self.limits.head_bytes:
                self._refuse(TOO_MUCH)

    def _upgrade(self) -> None:
        """To WebSockets; anything else is answered like any other request."""
        if not self._should_upgrade():
            return
        if not self._answered:  # two answers would be mixed
            self.transport.abort()
            return
        self._give(None)  # who comes is asked next, and whoever may not is answered at once
        self.handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        self._held_bytes = 0
        if self._deadline is None:
            self._give(self.limits.head_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        # A head that came all at once is measured here alone. Requests sent ahead are kept until their turn, so they are counted.
        head_bytes = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if head_bytes > self.limits.head_bytes or len(self.pipeline) >= self.limits.requests_ahead:
            raise TooMuch
        self._held_bytes = 0
        self._give(self.limits.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held_bytes = 0
        self._give(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._give(self.limits.flush_s)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._give(self.limits.flush_s)

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, answer: Response) -> None:
        if not self._answered:  # in the middle of another answer, where words of ours would be taken for its own
            self.transport.abort()
            return
        headers = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
        self.transport.write(b"HTTP/1.1 %d \r\n%sconnection: close\r\n\r\n%s" % (answer.status_code, headers, answer.body))
        self.transport.close()
        self._give(self.limits.flush_s)

    def _give(self, seconds: float | None) -> None:
        """So long from now until the connection is cut; None: as long as it takes."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class QuietWebSocket(WebSocketsSansIOProtocol):
    """Whoever is refused was answered: uvicorn would log an error for each of them."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True


def uid_of(link: socket.socket) -> int:
    """Of the process at the other end."""
    credentials = struct.Struct("3i")
    return int(credentials.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))[1])
