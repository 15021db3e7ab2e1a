"""gRPC over a UNIX socket, as a server: single questions with single answers. HTTP/2 itself is h2's."""
import asyncio
import contextlib
import logging
import os
import socket
import struct
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.exceptions import ProtocolError

from gpufairy.core.errors import EngineRefused, FairyError

Method = Callable[[bytes], Awaitable[bytes]]  # a message of protobuf for another. Raises FairyError or ValueError
LARGEST = 2**20  # bytes of a question: a kubelet's has a few claims
LONGEST_SOCKET = 107  # bytes of its path, by Linux
CHUNK = 65536
UNIMPLEMENTED, INTERNAL, INVALID = 12, 13, 3  # of gRPC's statuses
log = logging.getLogger(__name__)


class GrpcServer:
    def __init__(self, path: Path, methods: Mapping[str, Method]) -> None:
        """`methods`: by /package.Service/Method."""
        self.path, self._methods = path, methods
        self._server: asyncio.Server | None = None
        self._callers: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """In place of a socket that a process before this left. Raises EngineRefused."""
        if len(os.fsencode(self.path)) > LONGEST_SOCKET:
            found = f"{self.path} is longer than a socket's path may be ({LONGEST_SOCKET} bytes)"
            raise EngineRefused(found, "Give the kubelet a shorter folder.")
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.unlink(missing_ok=True)
            made.bind(str(self.path))
            self.path.chmod(0o600)
            self._server = await asyncio.start_unix_server(self._serve, sock=made)
        except OSError as error:
            made.close()
            raise EngineRefused(f"the kubelet's folder {self.path.parent} cannot be used: {error.strerror}", "Run as root.") from error

    @property
    def is_open(self) -> bool:
        """Somebody may have cleared the folder."""
        return self.path.is_socket()

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for caller in list(self._callers):
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)
        self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._callers.add(task)
        caller = _Caller(writer, self._methods)
        try:
            await caller.listen(reader)
        except (OSError, ProtocolError) as error:
            log.warning("a caller at %s was broken off: %s", self.path, error)
        except asyncio.CancelledError:
            pass  # we are closing: asyncio would complain of it in the log
        finally:
            caller.end()
            writer.close()
            self._callers.discard(task)


class _Caller:
    """One connection: questions come and are answered side by side."""

    def __init__(self, writer: asyncio.StreamWriter, methods: Mapping[str, Method]) -> None:
        self._writer, self._methods = writer, methods
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._questions: dict[int, tuple[str, bytearray]] = {}
        self._answers: dict[int, asyncio.Task[None]] = {}
        self._more_room = asyncio.Event()

    async def listen(self, reader: asyncio.StreamReader) -> None:
        self._h2.initiate_connection()
        await self._send()
        while chunk := await reader.read(CHUNK):
            try:
                for event in self._h2.receive_data(chunk):
                    if isinstance(event, ConnectionTerminated):
                        return
                    self._heard(event)
            finally:
                await self._send()  # also why we break it off

    def end(self) -> None:
        for answer in self._answers.values():
            answer.cancel()

    def _heard(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            headers = {str(name): str(value) for name, value in event.headers or ()}
            self._questions[event.stream_id or 0] = headers.get(":path", ""), bytearray()
        elif isinstance(event, DataReceived):
            self._take(event)
        elif isinstance(event, StreamEnded):
            self._begin(event.stream_id or 0)
        elif isinstance(event, StreamReset):
            self._questions.pop(event.stream_id or 0, None)
            if (answer := self._answers.get(event.stream_id or 0)) is not None:
                answer.cancel()
        elif isinstance(event, WindowUpdated):
            self._more_room.set()

    def _take(self, event: DataReceived) -> None:
        stream, content = event.stream_id or 0, event.data or b""
        if stream in self._questions:
            self._questions[stream][1].extend(content)
            if len(self._questions[stream][1]) > LARGEST:
                raise ProtocolError(f"a question of more than {LARGEST} bytes")
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)

    def _begin(self, stream: int) -> None:
        path, body = self._questions.pop(stream, ("", bytearray()))
        task = asyncio.create_task(self._answer(stream, path, bytes(body)), name=f"gRPC {path}")
        self._answers[stream] = task
        task.add_done_callback(lambda _: self._answers.pop(stream, None))

    async def _answer(self, stream: int, path: str, body: bytes) -> None:
        status, words, message = await self._asked(path, body)
        with contextlib.suppress(ProtocolError, OSError):  # it no longer listens
            self._h2.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
            if status == 0:
                await self._write(stream, struct.pack(">?I", False, len(message)) + message)
            said = [("grpc-message", urllib.parse.quote(words))] if words else []
            self._h2.send_headers(stream, [("grpc-status", str(status)), *said], end_stream=True)
            await self._send()

    async def _asked(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        method = self._methods.get(path)
        if method is None:
            return UNIMPLEMENTED, f"{path[:100]} is not known here", b""
        if len(body) < 5 or body[0] != 0 or len(body) - 5 != int.from_bytes(body[1:5]):
            return INVALID, "no single plain message", b""
        try:
            return 0, "", await method(body[5:])
        except FairyError as error:
            return INTERNAL, f"{error} {error.next_step}".strip(), b""
        except ValueError as error:
            return INVALID, str(error), b""

    async def _write(self, stream: int, content: bytes) -> None:
        """No more at once than the caller has room for."""
        rest = memoryview(content)
        while rest:
            room = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                self._more_room.clear()
                await self._more_room.wait()
                continue
            self._h2.send_data(stream, bytes(rest[:room]))
            rest = rest[room:]
            await self._send()

    async def _send(self) -> None:
        if content := self._h2.data_to_send():
            self._writer.write(content)
            await self._writer.drain()
