"""A forward: a channel on one side, a socket inside the visitor's session on the other, each side ended on its own."""
import contextlib
import socket
from typing import Any

import asyncssh

from gpufairy.gateway.connection import Connection
from gpufairy.gateway.flows import Inflow, Outflow


class Forward(asyncssh.SSHTCPSession[bytes]):
    def __init__(self, link: socket.socket, connection: Connection) -> None:
        self._link, self._connection = link, connection
        self._channel: Any = None
        self._out: Outflow | None = None
        self._in: Inflow | None = None
        self._over = 0  # sides that have ended

    def connection_made(self, chan: Any) -> None:
        self._channel = chan
        self._in = Inflow(self._link.fileno(), chan, self._end_link, shared=True)
        self._out = Outflow(self._link.fileno(), chan, self._link_ended, shared=True)
        self._connection.add_outflow(self._out)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._in is not None and self._out is not None:
            self._in.stop()
            self._out.stop()
            self._connection.remove_outflow(self._out)
        self._link.close()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self._in is not None:
            self._in.feed(data)

    def eof_received(self) -> bool:
        if self._in is not None:
            self._in.end()
        return True

    def pause_writing(self) -> None:
        if self._out is not None:
            self._out.hold("channel")

    def resume_writing(self) -> None:
        if self._out is not None:
            self._out.release("channel")

    def _end_link(self) -> None:
        with contextlib.suppress(OSError):  # the other side was faster
            self._link.shutdown(socket.SHUT_WR)
        self._one_over()

    def _link_ended(self) -> None:
        self._channel.write_eof()
        self._one_over()

    def _one_over(self) -> None:
        self._over += 1
        if self._over == 2:
            self._channel.close()
