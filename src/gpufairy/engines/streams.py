"""Commands run beside a session's own one: real descriptors, a terminal or three pipes, and their end."""
import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable, Mapping

from gpufairy.engines.contract import Command
from gpufairy.engines.pidfd import Watched, exit_code, watch_child
from gpufairy.engines.shim import spawn

LONGEST_GOODBYE_S = 1.0  # from SIGHUP to SIGKILL, when a stream is closed with its command still running


class DescriptorStream:
    """A command of this machine. The caller reads and writes the descriptors, and closes the stream."""

    def __init__(self, pid: int, *, stdin: int, stdout: int, stderr: int, on_gone: Callable[["DescriptorStream"], None]) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._on_gone = on_gone
        self._watched = watch_child(pid, self._gone)

    @property
    def pid(self) -> int:
        return self._watched.pid

    def resize(self, columns: int, rows: int) -> None:
        if self.stdin >= 0 and self.stdin == self.stdout:
            set_size(self.stdin, columns, rows)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        for descriptor in {self.stdin, self.stdout, self.stderr} - {-1}:
            os.close(descriptor)
        self.stdin = self.stdout = self.stderr = -1
        self.signal_group(signal.SIGHUP)
        await asyncio.wait([self._ended], timeout=LONGEST_GOODBYE_S)
        self.signal_group(signal.SIGKILL)

    def signal(self, number: int) -> None:
        self.signal_group(number)

    def signal_group(self, number: int) -> None:
        self._watched.signal_group(number)

    def unwatch(self) -> None:
        """The server goes; the command goes on until its descriptors end."""
        self._watched.close()

    def _gone(self, watched: Watched) -> None:
        if not self._ended.done():
            self._ended.set_result(exit_code(watched.status) if watched.status is not None else 255)
        self._on_gone(self)


OnGone = Callable[[DescriptorStream], None]


def open_stream(argv: list[str], env: Mapping[str, str], command: Command, on_gone: OnGone) -> DescriptorStream:
    if command.terminal:
        return _with_terminal(argv, env, command, on_gone)
    return _with_pipes(argv, env, on_gone)


def _with_terminal(argv: list[str], env: Mapping[str, str], command: Command, on_gone: OnGone) -> DescriptorStream:
    ours, theirs = os.openpty()
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(os.close, ours)
        try:
            set_size(theirs, command.columns, command.rows)
            pid = spawn(argv, env, stdin=os.ttyname(theirs), stdout=theirs, stderr=theirs)
        finally:
            os.close(theirs)
        stream = DescriptorStream(pid, stdin=ours, stdout=ours, stderr=ours, on_gone=on_gone)
        on_failure.pop_all()
    return stream


def _with_pipes(argv: list[str], env: Mapping[str, str], on_gone: OnGone) -> DescriptorStream:
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        their_in, our_in = _pipe(reader=theirs, writer=ours)
        our_out, their_out = _pipe(reader=ours, writer=theirs)
        our_err, their_err = _pipe(reader=ours, writer=theirs)
        pid = spawn(argv, env, stdin=their_in, stdout=their_out, stderr=their_err)
        stream = DescriptorStream(pid, stdin=our_in, stdout=our_out, stderr=our_err, on_gone=on_gone)
        ours.pop_all()  # all went well: the stream closes them
    return stream


def _pipe(*, reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *(min(max(n, 1), 9999) for n in (rows, columns)), 0, 0))
