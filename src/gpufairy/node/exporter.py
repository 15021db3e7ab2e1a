"""HTTP for Prometheus: `/metrics` as it was last collected; a scrape never collects. Small on purpose: GET and HEAD, no body is read."""
import asyncio
import errno
import gzip
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.core.errors import BadInput, Conflict

PORT = 9835
HEAD_BYTES = 8 * 2**10  # Prometheus sends a few hundred
REQUEST_S = 10.0  # from the connection, or the first byte of a further request, to its end
ANSWER_S = 30.0  # to take the answer
REST_S = 150.0  # between two requests: scrapes come each minute or more often
MOST_CONNECTIONS = 64  # one or two servers scrape a host
WAITING_CONNECTIONS = 1024  # many may come at once, and one that is not let in at once waits a second
FRESH_S = 30.0  # a page is made each second or few: an older one would tell of processes that may be gone
WORDS = b"gpufairy exporter: readings for Prometheus are at /metrics\n"
ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:\s]*))(?::(?P<port>[0-9]{1,5}))?")
PLAIN = "text/plain; charset=utf-8"
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Head Too Large", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    kind: str = PLAIN
    gzipped: bool = False


class Page:
    """What is ready. Written down and compressed once, at the first scrape that asks for it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, fresh_s: float = FRESH_S) -> None:
        self._clock, self._fresh_s = clock, fresh_s
        self._write: Callable[[], bytes] | None = None
        self._plain: bytes | None = None
        self._small: bytes | None = None
        self._at_s = 0.0

    def put(self, plain: bytes) -> None:
        self.put_later(lambda: plain)

    def put_later(self, write: Callable[[], bytes]) -> None:
        """What was collected, written down at the first scrape: most collections are never asked for."""
        self._write, self._plain, self._small, self._at_s = write, None, None, self._clock()

    def answer(self, gzipped: bool) -> Answer:
        if self._write is None:
            return Answer(503, b"nothing was collected yet; ask again in a few seconds\n")
        age_s = self._clock() - self._at_s
        if age_s > self._fresh_s:
            return Answer(503, f"the last collection was {age_s:.0f} s ago; see the log of this exporter\n".encode())
        if self._plain is None:
            self._plain = self._write()
        kind = "text/plain; version=0.0.4; charset=utf-8"
        if not gzipped:
            return Answer(200, self._plain, kind)
        if self._small is None:
            self._small = gzip.compress(self._plain, 1, mtime=0)
        return Answer(200, self._small, kind, gzipped=True)


class Connection(asyncio.Protocol):
    def __init__(self, exporter: "Exporter") -> None:
        self._exporter, self._received, self._paused = exporter, b"", False
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._exporter.welcome(self)
        self._allow(REQUEST_S)

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._allow(REQUEST_S)
        self._received += data
        self._reply_to_all()

    def pause_writing(self) -> None:
        """Who does not read answers is not heard either: else a thousand requests sent at once would cost a thousand pages of memory."""
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._transport is not None:
            self._transport.resume_reading()
            self._allow(REST_S)
            self._reply_to_all()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._exporter.farewell(self)

    def drop(self) -> None:
        if self._transport is not None:
            # By a reset: else the system keeps what was not read, and tries for minutes to deliver it.
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _reply_to_all(self) -> None:
        while not self._paused and b"\r\n\r\n" in self._received[: HEAD_BYTES + 4]:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._exporter.welcome(self)
            self._reply(head)
        if len(self._received) > HEAD_BYTES:
            self._send(Answer(431, b"the request's head is larger than 8 KiB, or too many were sent at once\n"), keep=False)

    def _reply(self, head: bytes) -> None:
        request = parse_head(head)
        if request is None:
            self._send(Answer(400, b"this is no request that is understood here; GET /metrics is\n"), keep=False)
        else:
            self._send(self._exporter.answer(request), keep=request.keep, with_body=request.method != "HEAD")

    def _send(self, answer: Answer, *, keep: bool, with_body: bool = True) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        encoding = "Content-Encoding: gzip\r\n" if answer.gzipped else ""
        allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
        head = f"HTTP/1.1 {answer.status} {REASONS[answer.status]}\r\nContent-Type: {answer.kind}\r\nContent-Length: {len(answer.body)}\r\n"
        head += f"{encoding}{allow}Vary: Accept-Encoding\r\nConnection: {'keep-alive' if keep else 'close'}\r\n\r\n"
        self._transport.write(head.encode() + (answer.body if with_body else b""))
        self._allow(ANSWER_S if self._transport.get_write_buffer_size() or not keep else REST_S)
        if not keep:
            self._received = b""
            self._transport.close()

    def _allow(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.drop)


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    gzipped: bool
    keep: bool


def parse_head(head: bytes) -> Asked | None:
    """None: no HTTP/1.x, or one with a body, which is never read here and would be taken for the next request."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1") or not words[1].startswith("/"):
        return None
    fields: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            return None
        fields[name.strip().lower()] = value.strip().lower()
    if "transfer-encoding" in fields or fields.get("content-length", "0") != "0":
        return None
    connection = fields.get("connection", "keep-alive" if words[2] == "HTTP/1.1" else "close")
    return Asked(words[0], words[1].partition("?")[0], takes_gzip(fields.get("accept-encoding", "")), "keep-alive" in connection)


def takes_gzip(accepted: str) -> bool:
    for one in accepted.split(","):
        name, _, quality = one.replace(" ", "").partition(";")
        if name == "gzip":
            return quality.rstrip("0.") not in ("q=", "q")
    return False


class Exporter:
    """Serves one page on one listening socket. When it is full, who was silent longest goes: strangers cannot shut Prometheus out."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._connections: dict[Connection, None] = {}  # the one that spoke last is last
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: Connection(self), sock=listener)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.drop()
        if self._server is not None:
            await self._server.wait_closed()

    def welcome(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if len(self._connections) >= MOST_CONNECTIONS:
            longest_silent = next(iter(self._connections))
            del self._connections[longest_silent]
            longest_silent.drop()
        self._connections[connection] = None

    def farewell(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def answer(self, asked: Asked) -> Answer:
        if asked.method not in ("GET", "HEAD"):
            return Answer(405, b"only GET and HEAD are understood here\n")
        if asked.path == "/metrics":
            return self._page.answer(asked.gzipped)
        if asked.path == "/healthz":
            return Answer(200, b"ok\n")
        if asked.path == "/":
            return Answer(200, WORDS)
        return Answer(404, b"there is nothing here; readings are at /metrics\n")


def parse_listen(text: str) -> tuple[str, int]:
    """`127.0.0.1:9835`, `[::1]:9835`, `:9835` (every address), `gpu01` (the usual port)."""
    found = ADDRESS.fullmatch(text)
    port = int(found["port"] or PORT) if found else 0
    if found is None or not text or port > 65535:
        raise BadInput(f"--listen: found {text[:80]!r}", "Write an address and a port, such as 127.0.0.1:9835 or [::1]:9835.")
    return found["six"] or found["host"] or "0.0.0.0", port


def listening(host: str, port: int) -> socket.socket:
    """Raises Conflict, BadInput."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio would not switch delays off
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(WAITING_CONNECTIONS)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(f"port {port} on {host} is taken", "Stop what listens there, or name another port with --listen.") from None
        raise BadInput(f"cannot listen on {host}, port {port}: {error}", "Check the address after --listen.") from None
    listener.setblocking(False)
    return listener
