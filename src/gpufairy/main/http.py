"""What a stranger may cost us before they have said anything: connections, bytes of a head, seconds to send a request, all bounded.

Uvicorn bounds none of them with httptools, whose speed we want. Answers may take as long as they like: streams and long polls do.
"""
import asyncio
import socket
import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gpufairy.api.problems import problem
from gpufairy.core.limits import Limit, Refusals
from gpufairy.main.crowd import Crowd

NOT_HTTP = problem(400, "Not understood", "this is no HTTP request", "See /docs for what is answered here.")
TOO_MUCH = problem(431, "Too large", "the request's head is larger than 64 KiB, or too many were sent at once", "Send less at a time.")
TOO_SLOW = problem(408, "Too slow", "the request did not come whole in the time for it", "Send it again, all at once.")
CROWDED = {
    Limit.CONNECTIONS_PER_SOURCE: problem(
        429, "Too many", "as many connections are open from your address as one may have",
        "Close some, or try again in a moment. If many people share it, an admin can name it: limits.trusted.",
    ),
    Limit.CONNECTIONS: problem(503, "Busy", "as many connections are open as the server takes", "Try again in a moment."),
}  # fmt: skip
for crowded in CROWDED.values():
    crowded.headers["Retry-After"] = "5"
BODY_BYTES_A_S = 16 * 2**10  # a body that comes so fast or faster may take longer than a request usually may
GOODBYE_S = 1.0  # for whoever is turned away to read why; at once, what they have sent meanwhile would undo our words
MOST_GOODBYES = 64  # at once: the rest is cut without a word
# Whoever vanishes without a goodbye is gone after two minutes, and after one if there was something to tell them. The kernel asks.
KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    head_bytes: int = 64 * 2**10  # a URL, a token and a browser's headers take a few KiB
    request_s: float = 15.0  # from the connection, or the first byte of a further request, to its last; a large body has longer
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


@dataclass(slots=True)
class Door:
    """What all connections of one server share."""

    crowd: Crowd = field(default_factory=Crowd)
    neighbours: Neighbours = field(default_factory=Neighbours)
    refusals: Refusals = field(default_factory=Refusals)
    goodbyes: int = 0  # connections that are just being told why


class GuardedHttp(HttpToolsProtocol):
    limits: ClassVar[Limits] = Limits()
    door: ClassVar[Door] = Door()

    _deadline: asyncio.TimerHandle | None = None
    _uid: int | None = None  # of a neighbour
    _turned_away = False
    _says_goodbye = False
    _said_part = False  # of a request that is not whole yet
    _due = 0.0  # when the request must be whole, by the loop's clock
    _held_bytes = 0  # came since the parser last passed something on: an unfinished head, or fields after a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own
        link = transport.get_extra_info("socket")
        limit = self._neighbour(link) if link.family == socket.AF_UNIX else self._caller(transport, link)
        if limit is not None:
            self._turn_away(transport, limit)
            return
        super().connection_made(transport)
        self._begin()

    def _neighbour(self, link: socket.socket) -> Limit | None:
        uid = uid_of(link)
        if not self.door.neighbours.has_room(uid, link, self.limits.of_one_uid):
            return Limit.SOCKET_PER_SESSION_USER
        self._uid = uid
        return None

    def _caller(self, transport: asyncio.Transport, link: socket.socket) -> Limit | None:
        for level, option, value in KEEPALIVE:
            link.setsockopt(level, option, value)
        address = transport.get_extra_info("peername")
        return self.door.crowd.come(transport, str(address[0]) if address else "")

    def _turn_away(self, transport: asyncio.Transport, limit: Limit) -> None:
        self._turned_away = True
        self.door.refusals.count(limit)
        if limit not in CROWDED or self.door.goodbyes >= MOST_GOODBYES:
            transport.abort()
            return
        self._says_goodbye = True
        self.door.goodbyes += 1
        transport.write(in_bytes(CROWDED[limit]))
        transport.write_eof()
        self.loop.call_later(GOODBYE_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turned_away:
            self.door.goodbyes -= self._says_goodbye
            return
        self._give(None)
        self._unset_keepalive_if_required()  # uvicorn forgets it where the other side broke off, and holds all of us as long
        self.door.crowd.left(self.transport)
        if self._uid is not None:
            self.door.neighbours.left(self._uid, self.transport.get_extra_info("socket"))
        super().connection_lost(exc)
        # It refers to us as we to it, so that only the collector would find either; and that comes seldom, with so much that stays.
        self.cycle = None  # type: ignore[assignment]  # as before the first request

    def data_received(self, data: bytes) -> None:
        """Not by way of uvicorn's own, which logs a line for every stranger who sends nonsense."""
        if self._turned_away:
            return
        self._unset_keepalive_if_required()
        if self._deadline is None and self._answered:
            self._begin()
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
        self.door.crowd.has_asked(self.transport)
        self.handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        self._held_bytes, self._said_part = 0, True
        if self._deadline is None:
            self._begin()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        # A head that came all at once is measured here alone. Requests sent ahead are kept until their turn, so they are counted.
        head_bytes = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if head_bytes > self.limits.head_bytes or len(self.pipeline) >= self.limits.requests_ahead:
            raise TooMuch
        self._held_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held_bytes = 0
        self._due += len(body) / BODY_BYTES_A_S
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held_bytes, self._said_part = 0, False
        self._give(None)
        if not self._answered:
            self.door.crowd.has_asked(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._answered:  # and nothing that was sent ahead
            self.door.crowd.is_answered(self.transport)
        if self.transport.is_closing():
            self._give(self.limits.flush_s)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._give(self.limits.flush_s)

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, answer: Response) -> None:
        if answer is TOO_MUCH:
            self.door.refusals.count(Limit.HEAD_SIZE)
        if not self._may_speak:
            self.transport.abort()
            return
        self.transport.write(in_bytes(answer))
        self.transport.close()
        self._give(self.limits.flush_s)

    @property
    def _may_speak(self) -> bool:
        """Not in the middle of another answer, where words of ours would be taken for its own."""
        return self._answered or not (self.cycle.response_started or self.pipeline)

    def _begin(self) -> None:
        """From now on the time of a request counts."""
        self._due = self.loop.time() + self.limits.request_s
        self._give(self.limits.request_s, self._look_at_time)

    def _look_at_time(self) -> None:
        """Of a body that keeps coming the end was put off; and what is not read is our own fault, not the sender's."""
        left_s = self.limits.request_s if self.flow.read_paused else self._due - self.loop.time()
        if left_s > 0:
            self._give(left_s, self._look_at_time)
            return
        self.door.refusals.count(Limit.REQUEST_TIME)
        if self._said_part:
            self._refuse(TOO_SLOW)
        else:  # it has never said anything: a browser that opened one more than it needed
            self.transport.abort()

    def _give(self, seconds: float | None, then: Callable[[], None] | None = None) -> None:
        """So long from now until the connection is cut; None: as long as it takes."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, then or self.transport.abort)


class QuietWebSocket(WebSocketsSansIOProtocol):
    """Whoever is refused was answered: uvicorn would log an error for each of them."""

    door: ClassVar[Door] = GuardedHttp.door

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.crowd.left(self.transport)
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True


def guarded(limits: Limits, door: Door) -> tuple[type[GuardedHttp], type[QuietWebSocket]]:
    """For one server: uvicorn makes the objects, so what they share lies in their class."""
    http = type("GuardedHttp", (GuardedHttp,), {"limits": limits, "door": door})
    return http, type("QuietWebSocket", (QuietWebSocket,), {"door": door})


def in_bytes(answer: Response) -> bytes:
    headers = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
    return b"HTTP/1.1 %d \r\n%sconnection: close\r\n\r\n%s" % (answer.status_code, headers, answer.body)


def uid_of(link: socket.socket) -> int:
    """Of the process at the other end."""
    credentials = struct.Struct("3i")
    return int(credentials.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))[1])
