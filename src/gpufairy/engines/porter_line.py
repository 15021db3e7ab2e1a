"""One connection to a porter: the wire of native/door.c, as the host speaks it. Every wait is the caller's to bound."""
import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpufairy.core.errors import EngineRefused

LARGEST_ANSWER_BYTES = 4096  # a kind, a number and a few words
_ANSWER = struct.Struct("<ci")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Answer:
    kind: bytes  # S started, F failed, X exited
    number: int  # its PID in the container, the errno, the exit code
    words: str


class Line:
    """Answers may come two at once, and a descriptor with the first."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._bytes = b""
        self._received: list[int] = []

    async def ask(self, request: bytes, descriptors: list[int]) -> None:
        whole = _LENGTH.pack(len(request)) + request
        sent = socket.send_fds(self._socket, [whole], descriptors)  # into an empty buffer: never refused, maybe not taken whole
        if sent < len(whole):
            await asyncio.get_running_loop().sock_sendall(self._socket, whole[sent:])

    def add(self, later: bytes) -> None:
        self._socket.send(_LENGTH.pack(len(later)) + later)

    async def answer(self) -> Answer:
        """Raises OSError, EOFError."""
        (length,) = _LENGTH.unpack(await self._exactly(_LENGTH.size))
        if not _ANSWER.size <= length <= LARGEST_ANSWER_BYTES:
            raise EOFError(f"it sent an answer of {length} bytes")
        body = await self._exactly(length)
        kind, number = _ANSWER.unpack_from(body)
        return Answer(kind, number, body[_ANSWER.size :].decode("utf-8", "replace"))

    def take_descriptor(self, accepted: Callable[[int], bool]) -> int:
        """The one that came, if it is what was asked for: where a user is root in the container, anything may come."""
        if len(self._received) != 1 or not accepted(self._received[0]):
            raise EngineRefused("the session's porter did not send what it was asked for", "Stop the session and start it again.")
        return self._received.pop()

    def close(self) -> None:
        close_all(self._received)
        self._received = []
        self._socket.close()

    async def _exactly(self, size: int) -> bytes:
        while len(self._bytes) < size:
            try:
                more, descriptors, _, _ = socket.recv_fds(self._socket, LARGEST_ANSWER_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await _readable(self._socket)
                continue
            self._received += descriptors
            if not more:
                raise EOFError("it hung up")
            self._bytes += more
        taken, self._bytes = self._bytes[:size], self._bytes[size:]
        return taken


async def _readable(waited_for: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(waited_for, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(waited_for)


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
