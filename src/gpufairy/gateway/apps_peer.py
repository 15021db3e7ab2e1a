"""One side of the proxy: a connection, and the state of the HTTP/1.1 that is spoken on it."""
import asyncio
import contextlib
import socket
from typing import Any, TypeAlias

import h11

HEAD_BYTES = 64 * 2**10  # a URL, cookies and a browser's fields take a few KiB
READ_BYTES = 256 * 2**10  # at a time, of a body

Event: TypeAlias = Any  # of h11: its own kinds, and NEED_DATA or PAUSED


class Gone(Exception):
    """The connection has ended. Never leaves the proxy."""


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        self._reader, self._writer = reader, writer
        self.http = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)

    async def next_event(self) -> Event:
        """Raises Gone, or h11.RemoteProtocolError."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.read())
        return event

    async def read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except OSError as error:
            raise Gone from error

    async def send(self, event: Event) -> None:
        """No faster than the other side takes it. Raises Gone."""
        await self.write(*(self.http.send_with_data_passthrough(event) or ()))

    async def write(self, *chunks: bytes) -> None:
        try:
            # Not writelines: that of Python 3.12 and 3.13, up to 3.13.1, never says that its buffer is full (CVE-2024-12254).
            self._writer.write(b"".join(chunks))
            await self._writer.drain()
        except OSError as error:
            raise Gone from error

    async def until_gone(self) -> None:
        """Between its request and our answer: raises Gone when it has left. What it sends ahead is kept for later."""
        data = await self.read()
        if not data:
            raise Gone
        self.http.receive_data(data)

    @property
    def has_ended(self) -> bool:
        return self._reader.at_eof() or self._writer.is_closing()

    @property
    def source(self) -> str:
        return str((self._writer.get_extra_info("peername") or ("nowhere",))[0])

    @property
    def begun_answering(self) -> bool:
        return self.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    def next_cycle(self) -> bool:
        """Ready for another request, if both sides have said all they had to."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        return True

    @property
    def left_over(self) -> bytes:
        return bytes(self.http.trailing_data[0])

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        """What was written still goes out, if the other side takes it."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def peer_on(link: socket.socket) -> Peer:
    """Of a connected socket: the app's side."""
    reader, writer = await asyncio.open_connection(sock=link, limit=READ_BYTES)
    return Peer(reader, writer, h11.CLIENT)


async def join(one: Peer, other: Peer) -> None:
    """Raw bytes both ways, from what was left over on, until either side ends."""

    async def pump(source: Peer, sink: Peer, first: bytes) -> None:
        data = first or await source.read()
        while data:
            await sink.write(data)
            data = await source.read()
        raise Gone

    ways = [asyncio.ensure_future(pump(one, other, one.left_over)), asyncio.ensure_future(pump(other, one, other.left_over))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
