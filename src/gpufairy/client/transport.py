"""HTTP by the standard library: one connection kept open for plain calls, one of its own for each stream.

Quick to import, which is what the command line needs. Foreign errors end here as ServerNotReached.
"""
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ssl import SSLCertVerificationError
from typing import Any

from gpufairy.client.errors import ServerNotReached
from gpufairy.client.protocol import IS_IT_RUNNING, Call, checked_token, parse_url, problem_of, read_answer
from gpufairy.wire.tls import trust_authorities

CONNECT_LIMIT_S = 10.0  # a host that does not answer by then is down or behind a wall
CHUNK_BYTES = 64 * 1024
# A stream may be silent for hours, so only the kernel can notice that the other side is gone: after 30 + 4 * 10 s.
KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4))


class Transport:
    """Not for use by two threads at once."""

    def __init__(self, url: str, token: str | None, limit_s: float | None = None) -> None:
        self.url = url.strip().rstrip("/")
        self._parts = parse_url(url)
        self._token = None if token is None else checked_token(token, "the token given")
        self._limit_s = limit_s  # None: each call's own
        self._kept: HTTPConnection | None = None

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def ask(self, call: Call) -> Any:
        # An idle connection may have been dropped by now. What must not be sent twice gets a new one, so that
        # a dropped one never leaves in doubt whether it was done; the rest is simply sent again.
        if not call.repeatable:
            self.close()
        if self._kept is not None:
            try:
                return self._ask_on(self._kept, call)
            except ServerNotReached as error:
                if isinstance(error.__cause__, TimeoutError):  # not dropped, only slow: asking twice would not help it
                    raise
        self._kept = self._connect()
        return self._ask_on(self._kept, call)

    def stream(self, call: Call) -> Iterator[bytes]:
        """The body as it comes. Ends when the server ended it; a line that broke before that raises ServerNotReached."""
        with closing(self._connect()) as connection:
            sock = connection.sock
            try:
                response = self._send(connection, call)
                if response.status >= 300:
                    raise problem_of(response.status, response.headers.get("Location"), response.read(CHUNK_BYTES))
                _wait_patiently(sock)
                while chunk := response.read1(CHUNK_BYTES):
                    yield chunk
            except (OSError, HTTPException) as error:
                raise self._not_reached(error) from error
            if response.length:
                raise ServerNotReached(f"the server at {self.url} broke off in the middle of an answer", "Try again.")

    def _ask_on(self, connection: HTTPConnection, call: Call) -> Any:
        try:
            response = self._send(connection, call)
            body = response.read()
        except (OSError, HTTPException) as error:
            self.close()
            raise self._not_reached(error) from error
        return read_answer(response.status, response.headers.get("Location"), body)

    def _connect(self) -> HTTPConnection:
        host, port, limit_s = self._parts.hostname or "", self._parts.port, self._limit_s or CONNECT_LIMIT_S
        connection = HTTPConnection(host, port, timeout=limit_s)
        if self._parts.scheme == "https":
            connection = HTTPSConnection(host, port, timeout=limit_s, context=trust_authorities())
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise self._not_reached(error) from error
        return connection

    def _send(self, connection: HTTPConnection, call: Call) -> HTTPResponse:
        if connection.sock is None:  # the server closed it after its last answer, as it said it would
            connection.connect()
        connection.sock.settimeout(self._limit_s or call.limit_s)
        connection.request(call.method, self._parts.path + call.path, call.payload(), call.headers(self._token))
        return connection.getresponse()

    def _not_reached(self, error: Exception) -> ServerNotReached:
        if isinstance(error, SSLCertVerificationError):
            return ServerNotReached(
                f"the server at {self.url} could not prove who it is: {error.verify_message}",
                "Check the address, or have its certificate's authority added to this machine.",
            )
        found = str(error) or type(error).__name__
        return ServerNotReached(f"no answer from the server at {self.url}: {found}", IS_IT_RUNNING)


def _wait_patiently(sock: socket.socket) -> None:
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
