"""Homes read and written for a move, wherever the engine has them: through the door for files, as their owner comes in by SFTP."""
import asyncio
import contextlib
import json
import os
import select
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.errors import BadInput, EngineRefused
from gpufairy.engines import home_files
from gpufairy.engines.contract import Command, Stream
from gpufairy.engines.doors import open_door

INSIDE = ("/opt/fairy/bin/python3", "-I", "-m", "gpufairy.engines.home_files")
BESIDE = (sys.executable, "-I", str(home_files.__file__))  # where sessions are plain processes, there is no /opt/fairy
CHUNK = 2**16
LONGEST_LINE = 2**20
IDLE_S = 60.0  # a writer that is sent nothing for so long is closed; the next piece opens another
ANSWER_S = 120.0
NOTED_EVERY = timedelta(minutes=10)
GOES_ON = "Move again: it goes on from here."


class Writing:
    """The program that writes into one home, kept for piece after piece."""

    def __init__(self, stream: Stream, reader: asyncio.StreamReader) -> None:
        self._stream, self._reader = stream, reader
        self.lock = asyncio.Lock()
        self.idle: asyncio.TimerHandle | None = None

    async def put(self, frames: bytes, count: int) -> list[dict[str, Any]]:
        sending = asyncio.create_task(asyncio.to_thread(write_all, self._stream.stdin, frames))
        try:
            async with asyncio.timeout(ANSWER_S):
                answers = [await self._reader.readline() for _ in range(count)]
                await sending
        except (TimeoutError, OSError) as error:
            raise EngineRefused(f"the home takes no more files: {str(error) or 'no answer'}", GOES_ON) from error
        finally:
            sending.cancel()
        if not all(answers):
            raise EngineRefused("the program that writes into the home has ended", GOES_ON)
        return [json.loads(answer) for answer in answers]

    async def close(self) -> None:
        await self._stream.close()


class MovingHomes:
    def __init__(self, house: House) -> None:
        self._house = house
        self._writing: dict[str, Writing] = {}
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()
        self._noted: dict[tuple[str, str], datetime] = {}

    async def note_read(self, actor: str, user: str) -> None:
        await self._note(actor, user, "home_moved_out", "its files are read, to be moved elsewhere")

    async def note_written(self, actor: str, user: str) -> None:
        await self._note(actor, user, "home_moved_in", "files come into it from elsewhere")

    async def _note(self, actor: str, user: str, what: str, why: str) -> None:
        """A home that an admin reads or writes is told of, but not for each piece."""
        now, last = self._house.clock(), self._noted.get((user, what))
        if last is None or now - last > NOTED_EVERY:
            self._noted[user, what] = now
            await note(self._house, actor, f"user:{self._house.registry.user(user).name}", what, why)

    async def listed(self, user: str) -> AsyncIterator[bytes]:
        """Lines of JSON; the last says that it is."""
        async with self._opened(user, "list") as (stream, reader):
            await asyncio.to_thread(end_input, stream)
            while chunk := await reader.read(CHUNK):
                yield chunk

    async def hashes(self, user: str, paths: Sequence[str]) -> list[dict[str, Any]]:
        text = b"".join([chunk async for chunk in self._asked(user, "hash", [{"path": path} for path in paths])])
        return [line for line in map(json.loads, text.splitlines()) if "done" not in line]

    def read(self, user: str, wanted: Sequence[dict[str, Any]]) -> AsyncIterator[bytes]:
        """Each file as a line of JSON and its bytes, in pieces; at the end a line that says so."""
        return self._asked(user, "read", wanted)

    async def put(self, user: str, frames: bytes) -> list[dict[str, Any]]:
        """What became of each piece. Raises BadInput: these are none."""
        count = count_frames(frames)
        writing = await self._writer(user)
        async with writing.lock:
            try:
                return await writing.put(frames, count)
            except EngineRefused:
                await self._close(user)
                raise
            finally:
                self._rest(user, writing)

    async def _asked(self, user: str, what: str, lines: Sequence[dict[str, Any]]) -> AsyncIterator[bytes]:
        text = b"".join(home_files.frame(line) for line in lines)
        async with self._opened(user, what) as (stream, reader):
            sending = asyncio.create_task(asyncio.to_thread(write_last, stream, text))
            try:
                while chunk := await reader.read(CHUNK):
                    yield chunk
            finally:
                await asyncio.wait([sending])

    async def _writer(self, user: str) -> Writing:
        async with self._opening:
            if user not in self._writing:
                stream = await self._open(user, "write")
                self._writing[user] = Writing(stream, await reading(stream))
            return self._writing[user]

    def _rest(self, user: str, writing: Writing) -> None:
        if writing.idle is not None:
            writing.idle.cancel()
        writing.idle = asyncio.get_running_loop().call_later(IDLE_S, self._give_up, user, writing)

    def _give_up(self, user: str, writing: Writing) -> None:
        if self._writing.get(user) is writing and not writing.lock.locked():
            task = asyncio.create_task(self._close(user))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close(self, user: str) -> None:
        writing = self._writing.pop(user, None)
        if writing is not None:
            await writing.close()

    @contextlib.asynccontextmanager
    async def _opened(self, user: str, what: str) -> AsyncIterator[tuple[Stream, asyncio.StreamReader]]:
        stream = await self._open(user, what)
        try:
            yield stream, await reading(stream)
        finally:
            await stream.close()

    async def _open(self, user: str, what: str) -> Stream:
        engine = self._house.engine
        door = await engine.files_door(self._house.registry.user(user).name)
        program = BESIDE if engine.name == "process" else INSIDE
        return await open_door(door, Command((*program, what, door.workdir)))


async def reading(stream: Stream) -> asyncio.StreamReader:
    """A descriptor of its own: the stream closes its, asyncio this one."""
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    pipe = os.fdopen(os.dup(stream.stdout), "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


def write_last(stream: Stream, content: bytes) -> None:
    with contextlib.suppress(OSError):  # it ended before it had heard all: what it said tells
        write_all(stream.stdin, content)
        end_input(stream)


def write_all(descriptor: int, content: bytes) -> None:
    """Blocking, for a thread. The descriptor may be one that asyncio reads, too, and so not block by itself."""
    view = memoryview(content)
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            waiting.poll(1000)


def end_input(stream: Stream) -> None:
    os.close(stream.stdin)
    stream.stdin = -1


def count_frames(frames: bytes) -> int:
    """Raises BadInput: it is no row of lines with the bytes that they tell of."""
    at = count = 0
    while at < len(frames):
        end = frames.find(b"\n", at)
        try:
            length = int(json.loads(frames[at:end]).get("length", 0)) if end > 0 else -1
        except (ValueError, AttributeError, TypeError, RecursionError):
            length = -1
        at = end + 1 + length
        if length < 0 or at > len(frames):
            raise BadInput("this is no piece of a file: a line of JSON and the bytes it tells of", "Send what the other server gave.")
        count += 1
    return count
