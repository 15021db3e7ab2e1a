"""A command's streams on a channel: its input, its output, and when both its end and its last byte have come."""
import asyncio
import os
from typing import Any

from asyncssh import EXTENDED_DATA_STDERR

from gpufairy.engines.contract import Stream
from gpufairy.gateway.connection import Connection
from gpufairy.gateway.flows import Inflow, Outflow

LAST_WORDS_S = 0.1  # after a shell's end: for what is left in a terminal that a child of its may still hold open


class Carried:
    def __init__(self, stream: Stream, channel: Any, connection: Connection, *, terminal: bool) -> None:
        self._stream, self._connection, self._terminal = stream, connection, terminal
        self._drained = asyncio.Event()
        # A terminal comes out of the session; the pipes are ours, and the session has only their other ends.
        self._in = Inflow(stream.stdin, channel, self._end_input, shared=terminal)
        self._outs = [Outflow(stream.stdout, channel, self._one_ended, shared=terminal)]
        if not terminal:
            self._outs.append(Outflow(stream.stderr, channel, self._one_ended, datatype=EXTENDED_DATA_STDERR))
        for flow in self._outs:
            connection.add_outflow(flow)

    @property
    def full(self) -> bool:
        """The command does not read as fast as the client sends."""
        return self._in.full

    def feed(self, data: bytes) -> None:
        self._in.feed(data)

    def end_input(self) -> None:
        self._in.end()

    def hold(self) -> None:
        for flow in self._outs:
            flow.hold("channel")

    def release(self) -> None:
        for flow in self._outs:
            flow.release("channel")

    async def exit_code(self) -> int:
        """When all has been passed on. As with OpenSSH, a child in the background that keeps a pipe open keeps the channel too."""
        code = await self._stream.wait()
        if not self._terminal:
            await self._drained.wait()
            return code
        while not self._drained.is_set():
            try:
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._drained.wait()
            except TimeoutError:
                if not any(flow.held for flow in self._outs):
                    break
        return code

    def stop(self) -> None:
        """Before the stream is closed."""
        self._in.stop()
        for flow in self._outs:
            flow.stop()
            self._connection.remove_outflow(flow)

    def _end_input(self) -> None:
        if not self._terminal:  # a terminal has one descriptor for both ways, and its end is a key
            os.close(self._stream.stdin)
            self._stream.stdin = -1

    def refuse_output(self) -> None:
        """What it writes from now on is answered by SIGPIPE, as in a pipe whose reader is gone."""
        if not self._terminal and self._stream.stdout >= 0:
            self._outs[0].stop()
            os.close(self._stream.stdout)
            self._stream.stdout = -1
            self._one_ended()

    def _one_ended(self) -> None:
        if all(flow.ended for flow in self._outs):
            self._drained.set()
