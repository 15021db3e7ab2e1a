"""The host's side of the porter (native/): commands opened in a container by its first process, and connections made there.

Bytes go through real descriptors, and whatever a container does, its answer is waited for with a deadline.
"""
import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import socket
import stat
import struct

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.contract import Command, Door
from gpufairy.engines.network_namespace import connect_inside
from gpufairy.engines.porter_line import Line, close_all
from gpufairy.engines.streams import set_size

LONGEST_ANSWER_S = 5.0
MOST_REQUEST_BYTES = 2**20  # as native/door.c has it
# As much as Linux allows anybody, for fewer and larger reads. Not for input: what lies there is our memory, not the session's, and
# a command that reads nothing leaves it there; the usual 64 KiB are as fast.
OUTPUT_BYTES = 2**20
KILLED, HUNG_UP = 128 + signal.SIGKILL, 128 + signal.SIGHUP
TERMINAL_MASTER = os.makedev(5, 2)
WHY = {
    errno.ECONNREFUSED: "nobody listens there",
    errno.ENOENT: "there is no such command or file there",
    errno.EAGAIN: "it has as many processes as it may have, or is too busy",
}


class PorterStream:
    """A command in a container. The caller reads and writes the descriptors, and closes the stream."""

    def __init__(self, line: Line, *, stdin: int, stdout: int, stderr: int) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._line = line
        self._listening = asyncio.create_task(self._exit_code(), name="porter: waiting for an exit code")

    def resize(self, columns: int, rows: int) -> None:
        if self.stdin >= 0 and self.stdin == self.stdout:
            set_size(self.stdin, columns, rows)

    def signal(self, number: int) -> None:
        """To the command's process group; one that is over hears nothing."""
        with contextlib.suppress(OSError):
            self._line.add(struct.pack("<cB", b"G", number))

    async def wait(self) -> int:
        await asyncio.wait([self._listening])
        return HUNG_UP if self._listening.cancelled() else self._listening.result()

    async def close(self) -> None:
        """The porter hears the hanging up, and ends the command if it still runs."""
        close_all({self.stdin, self.stdout, self.stderr} - {-1})
        self.stdin = self.stdout = self.stderr = -1
        self._listening.cancel()
        await asyncio.wait([self._listening])
        self._line.close()

    async def _exit_code(self) -> int:
        try:
            told = await self._line.answer()
        except (OSError, EOFError):  # the whole container has ended, and its porter with it
            return KILLED
        return told.number if told.kind == b"X" else KILLED


async def open_in(door: Door, command: Command) -> PorterStream:
    """Raises EngineRefused: the session is over, its porter is silent, or the command cannot be run there."""
    if not command.argv:
        raise EngineRefused("no command was given to be run in the session")
    refused = f"{command.argv[0][:200]!r} cannot be run in the session"
    request = _open_request(door, command)
    if len(request) > MOST_REQUEST_BYTES:
        raise EngineRefused(f"{refused}: its {len(request)} bytes of arguments and environment are more than {MOST_REQUEST_BYTES}")
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        ends = () if command.terminal else _three_pipes(ours, theirs, refused)
        line = await _asked(door, request, [their_end for _, their_end in ends], refused)
        ours.callback(line.close)
        if command.terminal:
            stdin = stdout = stderr = line.take_descriptor(_is_terminal_master)
        else:
            stdin, stdout, stderr = (our_end for our_end, _ in ends)
        ours.pop_all()  # all went well: the stream closes them
    return PorterStream(line, stdin=stdin, stdout=stdout, stderr=stderr)


async def connect_in(door: Door, where: int | str) -> socket.socket:
    """A connected socket: to a port of the container's own loopback, or to a UNIX socket in it. Raises EngineRefused."""
    if isinstance(where, str):
        request, refused = b"U" + _text(where), f"{where[:200]!r} in the session cannot be reached"
    elif 0 < where < 2**16:
        request, refused = struct.pack("<cH", b"C", where), f"port {where} of the session cannot be reached"
    else:
        raise EngineRefused(f"there is no port {where}: ports are 1 to 65535")
    with contextlib.closing(await _asked(door, request, [], refused)) as line:
        return socket.socket(fileno=line.take_descriptor(_is_socket))


def _open_request(door: Door, command: Command) -> bytes:
    env = dict(door.env) | dict(command.env)
    if command.terminal:
        env.setdefault("TERM", "xterm-256color")
    size = (min(max(number, 1), 9999) for number in (command.columns, command.rows))
    pairs = tuple(f"{name}={value}" for name, value in env.items())
    return struct.pack("<cBHH", b"E", command.terminal, *size) + _text(door.workdir) + _texts(pairs) + _texts(command.argv)


def _texts(texts: tuple[str, ...]) -> bytes:
    return struct.pack("<I", len(texts)) + b"".join(map(_text, texts))


def _text(text: str) -> bytes:
    if "\0" in text:
        raise EngineRefused(f"{text[:200]!r} holds a zero byte, which no command, path or variable can")
    return text.encode("utf-8", "surrogateescape") + b"\0"


def _three_pipes(ours: contextlib.ExitStack, theirs: contextlib.ExitStack, refused: str) -> tuple[tuple[int, int], ...]:
    """(our end, their end) of stdin, stdout, stderr."""
    ends = []
    for we_write in (True, False, False):
        try:
            read, write = os.pipe()
        except OSError as error:
            raise EngineRefused(f"{refused}: {error}", "Close what you have open, or try again in a minute.") from error
        if not we_write:
            with contextlib.suppress(OSError):  # a user's pipes may hold so much in all: then these are smaller
                fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, OUTPUT_BYTES)
        our_end, their_end = (write, read) if we_write else (read, write)
        ours.callback(os.close, our_end)
        theirs.callback(os.close, their_end)
        ends.append((our_end, their_end))
    return tuple(ends)


async def _asked(door: Door, request: bytes, descriptors: list[int], refused: str) -> Line:
    """The line to the porter after a good answer."""
    with contextlib.ExitStack() as on_failure:
        try:
            async with asyncio.timeout(LONGEST_ANSWER_S):
                line = Line(await connect_inside(door.pid, door.birth_ticks))
                on_failure.callback(line.close)
                await line.ask(request, descriptors)
                told = await line.answer()
        except (OSError, EOFError) as error:  # a TimeoutError is an OSError, without words
            found = f"{refused}: its porter gives no answer ({str(error) or 'in time'})"
            raise EngineRefused(found, "See `fairy ps`: does it run?") from error
        if told.kind != b"S":
            raise EngineRefused(f"{refused}: {WHY.get(told.number, told.words)}")
        on_failure.pop_all()
    return line


def _is_terminal_master(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == TERMINAL_MASTER


def _is_socket(descriptor: int) -> bool:
    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
