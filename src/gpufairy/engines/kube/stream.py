"""A command in a pod, with descriptors of this machine: tasks carry the bytes between them and the API server."""
import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol

from gpufairy.core.errors import FairyError
from gpufairy.engines.kube.errors import KubeRefused

CHUNK = 128 * 1024  # bytes read at once
BUFFER = 512 * 1024  # bytes on their way in one direction
LAST_WORDS_S = 1.0  # for input that was written and not yet sent, when a stream is closed
KEYS = {signal.SIGINT: b"\x03", signal.SIGQUIT: b"\x1c", signal.SIGTSTP: b"\x1a"}  # Kubernetes carries no signals, but a terminal has keys
STDOUT, STDERR = 1, 2
CANNOT_RUN, NOT_FOUND, UNKNOWN_END = 126, 127, 255  # as a shell has them, and as our other streams have the last
BEFORE_THE_REASON = "unable to start container process: "  # runc's, after a page of others'
NO_SUCH_FILE = ("no such file", "not found")


class Channel(Protocol):
    @property
    def exit_code(self) -> int | None: ...
    async def write(self, data: bytes | memoryview) -> None: ...
    async def end_input(self) -> None: ...
    async def resize(self, columns: int, rows: int) -> None: ...
    async def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]: ...


class KubeStream:
    """With a terminal all three are one descriptor. The caller reads and writes them, and closes the stream."""

    def __init__(self, channel: Channel, *, terminal: bool) -> None:
        self._channel = channel
        self._terminal = terminal
        self.trouble: FairyError | None = None  # why it could not be run, or how it ended, is not known
        self.on_signal: Callable[[int], None] | None = None  # somebody who can reach the command by another way
        near_in, self._in = _pair()
        if terminal:
            self._out = self._err = self._in
            self.stdin = self.stdout = self.stderr = near_in.detach()
        else:
            (near_out, self._out), (near_err, self._err) = _pair(), _pair()
            self.stdin, self.stdout, self.stderr = near_in.detach(), near_out.detach(), near_err.detach()
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._soon: set[asyncio.Task[None]] = set()
        self._sending = asyncio.create_task(self._carry_in())
        self._receiving = asyncio.create_task(self._carry_out())

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal and not self._ended.done():
            self._start(self._channel.resize(*(min(max(n, 1), 9999) for n in (columns, rows))))

    def signal(self, number: int) -> None:
        if self._ended.done():
            return
        if self.on_signal is not None:
            self.on_signal(number)
        elif self._terminal and number in KEYS:
            self._start(self._channel.write(KEYS[signal.Signals(number)]))

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        """What does not read the end of its input goes on, in a terminal too: Kubernetes hangs up on nobody."""
        for descriptor in {self.stdin, self.stdout, self.stderr} - {-1}:
            os.close(descriptor)
        self.stdin = self.stdout = self.stderr = -1
        await asyncio.wait([self._sending], timeout=LAST_WORDS_S)
        await self._channel.close()
        for task in (self._sending, *self._soon):
            task.cancel()
        await asyncio.gather(self._sending, self._receiving, *self._soon, return_exceptions=True)

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        async def sent() -> None:
            with contextlib.suppress(BrokenPipeError):  # it is over
                await sending

        task = asyncio.create_task(sent())
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)

    async def _carry_in(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # the command is over, or nobody holds the other end
            while data := await loop.sock_recv(self._in, CHUNK):
                await self._channel.write(data)
            if not self._terminal:  # a terminal's end of input is a key
                await self._channel.end_input()

    async def _carry_out(self) -> None:
        code = UNKNOWN_END
        targets = {STDOUT: self._out, STDERR: self._err}
        try:
            async for number, data in self._channel:
                await self._pass_on(targets, number, data)
            code = UNKNOWN_END if self._channel.exit_code is None else self._channel.exit_code
        except KubeRefused as error:
            self.trouble = error
            code = NOT_FOUND if any(words in error.message.lower() for words in NO_SUCH_FILE) else CANNOT_RUN
            await self._pass_on(targets, STDERR, f"{error.message.rpartition(BEFORE_THE_REASON)[2]}\n".encode())
        except FairyError as error:
            self.trouble = error
        finally:
            await self._over(code)

    async def _pass_on(self, targets: dict[int, socket.socket], number: int, data: bytes) -> None:
        """What nobody reads any more is thrown away: the other streams, and the command's end, come by the same connection."""
        if (target := targets.get(number)) is None:
            return
        try:
            await asyncio.get_running_loop().sock_sendall(target, data)
        except OSError:
            del targets[number]

    async def _over(self, code: int) -> None:
        self._sending.cancel()
        await asyncio.wait([self._sending])  # first: a descriptor that is closed while the loop looks at it may be another's a moment later
        for own in {self._in, self._out, self._err}:
            own.close()
        if not self._ended.done():
            self._ended.set_result(code)


def _pair() -> tuple[socket.socket, socket.socket]:
    """Theirs, which waits as any descriptor does, and ours."""
    theirs, ours = socket.socketpair()
    for one in (theirs, ours):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    ours.setblocking(False)
    return theirs, ours
