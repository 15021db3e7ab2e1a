"""A session channel: a shell, a command or SFTP behind a door, from the request to its exit code."""
import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import asyncssh

from gpufairy.core.errors import FairyError
from gpufairy.engines.contract import Stream
from gpufairy.engines.doors import open_door
from gpufairy.gateway.carry import Carried
from gpufairy.gateway.connection import Connection
from gpufairy.gateway.gate import Gate
from gpufairy.gateway.login import Login
from gpufairy.gateway.seam import Entry
from gpufairy.gateway.terminals import apply_modes
from gpufairy.gateway.wishes import Terminal, Wish, command_for, signal_number, terminal
from gpufairy.gateway.words import line, printable, trouble

NOT_RUN = 255  # the exit code of ssh itself, when there is nothing to give one
LEFT_WAITING = 130  # by Ctrl-C, as a shell says it
TYPED_AHEAD_BYTES = 4096  # kept for the shell while its session is waited for
CTRL_C = b"\x03"


class Host(Protocol):
    """The visitor that a session channel belongs to."""

    login: Login
    connection: Connection

    def take_notes(self) -> list[str]: ...
    def entered(self, entry: Entry, what: str) -> None: ...


class SessionProcess(asyncssh.SSHServerSession[bytes]):
    session_id = ""

    def __init__(self, gate: Gate, host: Host) -> None:
        self._gate, self._host = gate, host
        self._channel: Any = None
        self._terminal: Terminal | None = None
        self._modes: Mapping[int, int] = {}
        self._wish = Wish()
        self._task: asyncio.Task[None] | None = None
        self._early: bytes = b""  # what came before there was anything to read it
        self._ended_early = False
        self._stream: Stream | None = None
        self._carried: Carried | None = None

    # What the client asks for.

    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]) -> bool:
        self._terminal, self._modes = terminal(term_type, *term_size[:2]), term_modes
        return True

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self._wish = Wish(line=command)
        return "\0" not in command

    def subsystem_requested(self, subsystem: str) -> bool:
        self._wish = Wish(sftp=True)
        return subsystem == "sftp"

    def session_started(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._gate.watch(self._task)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._terminal is not None:
            self._terminal = replace(self._terminal, columns=width or 80, rows=height or 24)
            if self._stream is not None:
                self._stream.resize(self._terminal.columns, self._terminal.rows)

    def signal_received(self, signal: str) -> None:
        number = signal_number(signal)
        if number is not None and self._stream is not None:
            self._stream.signal(number)

    def break_received(self, msec: int) -> bool:
        return False

    # Its bytes.

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self._carried is not None:
            self._carried.feed(data)
        elif self._terminal is None:
            self._early += data
            self._channel.pause_reading()
        elif CTRL_C in data and self._task is not None:
            name = self._host.login.session or "main"
            self.tell(f"{name} waits on without you; `fairy stop {name}` takes it out of the queue")
            self._channel.exit(LEFT_WAITING)
            self._task.cancel()
        else:
            self._early = (self._early + data)[:TYPED_AHEAD_BYTES]

    def eof_received(self) -> bool:
        if self._carried is not None:
            self._carried.end_input()
        self._ended_early = True
        return True

    def pause_writing(self) -> None:
        if self._carried is not None:
            self._carried.hold()

    def resume_writing(self) -> None:
        if self._carried is not None:
            self._carried.release()

    def output_unwanted(self) -> None:
        if self._carried is not None:
            self._carried.refuse_output()

    def tell(self, words: str) -> None:
        self._say((b"\r\n" if self._terminal is not None else b"") + line(words))

    def _say(self, text: bytes) -> None:
        if not self._channel.is_closing():
            self._channel.write(text, asyncssh.EXTENDED_DATA_STDERR)

    # Its life.

    async def _run(self) -> None:
        try:
            if self._wish.sign_in:
                link = await self._gate.house.sign_in_link(self._host.login.user)
                self._channel.write(printable(link).encode() + (b"\n" if self._terminal is None else b"\r\n"))
                self._channel.exit(0)
                return
            entry = await self._entry()
            self._greet(entry)
            stream = await self._opened(entry)
            try:
                self._channel.exit(await self._carry(stream))
            finally:
                await self._put_away(stream)
        except FairyError as error:
            self._say(trouble(error))
            self._channel.exit(NOT_RUN)
        finally:
            self._gate.take_off(self)
            self._channel.close()

    async def _entry(self) -> Entry:
        told: list[str] = []

        def tell(words: str) -> None:
            if self._terminal is not None or not told:  # a script's error output gets one line
                self._say(line(words))
            told.append(words)

        return await self._gate.knocks.enter(self._host.login, self._wish.purpose, tell)

    def _greet(self, entry: Entry) -> None:
        what = "sftp" if self._wish.sftp else "shell" if self._wish.line is None else "command"
        self._host.entered(entry, what)
        self.session_id = entry.session_id
        if self._terminal is None:
            return
        self._gate.show_on(self)
        if self._wish.interactive:
            for words in [*self._host.take_notes(), *([entry.greeting] if entry.greeting else [])]:
                self._say(line(words))

    async def _opened(self, entry: Entry) -> Stream:
        names = self._channel.get_environment().items()
        command = command_for(self._wish, entry.door, self._terminal, names, self._gate.sftp_server)
        opening = asyncio.ensure_future(open_door(entry.door, command))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # the client is gone: what opens now must be closed again
            opening.add_done_callback(self._unwanted)
            raise

    def _unwanted(self, opening: asyncio.Future[Stream]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._gate.watch(asyncio.get_running_loop().create_task(opening.result().close()))

    async def _carry(self, stream: Stream) -> int:
        self._stream = stream
        if self._terminal is not None:
            apply_modes(stream.stdin, self._modes)
            stream.resize(self._terminal.columns, self._terminal.rows)
        carried = Carried(stream, self._channel, self._host.connection, terminal=self._terminal is not None)
        if self._early:
            carried.feed(self._early)
        if self._ended_early:
            carried.end_input()
        self._carried, self._early = carried, b""
        if not carried.full:
            self._channel.resume_reading()
        return await carried.exit_code()

    async def _put_away(self, stream: Stream) -> None:
        self._stream = None
        if self._carried is not None:
            self._carried.stop()
        await stream.close()
