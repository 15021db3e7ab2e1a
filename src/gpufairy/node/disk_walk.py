"""Walking through a folder by our own program, at the lowest priority, and reading what it says. Nothing but the standard library."""
import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from gpufairy.core.disk import DiskLook, Owned, Place, Sort, Thing, Unmeasured
from gpufairy.core.disk_due import WalkPace
from gpufairy.core.errors import FairyError

LONGEST_S = 6 * 3600  # a walk that takes longer stands before a dead disk
LINE_LIMIT = 2**20  # bytes: a path of a thousand folders with the longest names there are
MOST_LINES = 200_000  # of an answer: a thousand owners with all that is named of each
LONGEST_PATH = 1000  # characters of a path that are told


class DiskWalker:
    def __init__(self, program: Callable[[], Path], kept: Path, pace: WalkPace, *, low: bool = True) -> None:
        """`program`: the walker, which may have to be compiled first. `kept`: a folder for what it keeps between walks."""
        self._program, self._kept, self._pace, self._low = program, kept, pace, low
        self._stuck: dict[str, asyncio.subprocess.Process] = {}  # those that could not be ended: their disk does not answer

    async def walk(self, place: Place, now: datetime, *, full: bool) -> DiskLook | Unmeasured:
        if self._is_stuck(place):
            return Unmeasured(place, now, f"{place.path} gives no answer: the last walk hangs in it", "Look at the disk it lies on.")
        try:
            program = await asyncio.to_thread(self._program)
            path = await asyncio.to_thread(os.path.realpath, place.path)
            self._kept.mkdir(mode=0o700, parents=True, exist_ok=True)
            began = time.monotonic()
            said, wrong, code = await self._run(place, [os.fspath(program), *self._arguments(place, path, full)])
        except FairyError as error:
            return Unmeasured(place, now, error.detail, error.next_step)
        except (OSError, TimeoutError) as error:
            words = f"no end after {LONGEST_S // 3600} hours" if isinstance(error, TimeoutError) else str(error)
            return Unmeasured(place, now, f"{place.path} could not be walked through: {words}", "Look at the disk it lies on.")
        if code != 0:
            found = wrong.decode(errors="backslashreplace").strip()[:200] or f"the walk ended with {code}"
            return Unmeasured(place, now, f"{place.path}: {found}", "Look whether it is there and mounted.")
        return look_of(place, now, said, took_s=time.monotonic() - began, full=full)

    def _arguments(self, place: Place, path: str, full: bool) -> list[str]:
        kept = self._kept / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.kept"
        times = [str(round(time.total_seconds())) for time in (self._pace.hot, self._pace.old, self._pace.stale)]
        whose, how = "top" if place.of_homes else "uid", "full" if full else "quick"
        return [path, os.fspath(kept), whose, how, *times, "low" if self._low else "same"]

    async def _run(self, place: Place, command: list[str]) -> tuple[list[bytes], bytes, int]:
        child = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=LINE_LIMIT,
            env={"LC_ALL": "C"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(LONGEST_S):
                out, wrong = await child.communicate()
                return out.splitlines()[:MOST_LINES], wrong, child.returncode or 0
        finally:
            if child.returncode is None:
                await self._end(place, child)

    async def _end(self, place: Place, child: asyncio.subprocess.Process) -> None:
        """One that waits for a dead disk hears nothing: it is left alone, and no second one is sent after it."""
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        try:
            async with asyncio.timeout(2):
                await child.wait()
        except TimeoutError:
            self._stuck[place.path] = child

    def _is_stuck(self, place: Place) -> bool:
        child = self._stuck.get(place.path)
        if child is not None and child.returncode is not None:
            del self._stuck[place.path]
        return place.path in self._stuck


def look_of(place: Place, at: datetime, lines: Iterable[bytes], *, took_s: float, full: bool) -> DiskLook | Unmeasured:
    rows = [line.split(b"\t") for line in lines]
    if not rows or rows[-1] != [b"done"]:
        return Unmeasured(place, at, f"{place.path}: the walk said only half of what it found", "It is tried again.")
    try:
        return look_from(rows, place, at, took_s=took_s, full=full)
    except (ValueError, IndexError):
        return Unmeasured(place, at, f"{place.path}: the walk said what cannot be understood", "Restart the server or the agent.")


def look_from(rows: list[list[bytes]], place: Place, at: datetime, *, took_s: float, full: bool) -> DiskLook:
    """What the program said, a line for each thing: its kind, then figures, then its name."""
    owners: list[list[list[bytes]]] = []
    for row in rows:
        if row[0] == b"owner":
            owners.append([row])
        elif owners and row[0] in (b"sort", b"largest", b"oldest", b"in"):
            owners[-1].append(row)
    _, all_bytes, inodes, listed, trusted, _, unread, vanished, mounts, too_deep = rows[0]
    return DiskLook(
        place, at, took_s, full, int(all_bytes), int(inodes), int(listed), int(trusted), int(unread), int(vanished), int(mounts),
        int(too_deep), tuple(map(owned_of, owners)), things(rows, b"folder"),
        tuple(f"{text_of(row[2])}: {text_of(row[1]).lower()}" for row in rows if row[0] == b"unread"),
    )  # fmt: skip


def owned_of(rows: list[list[bytes]]) -> Owned:
    _, size, inodes, old, uid, top = rows[0]
    sorts = tuple(Sort(text_of(row[3]), int(row[1]), int(row[2])) for row in rows if row[0] == b"sort")
    named = (things(rows, kind) for kind in (b"largest", b"oldest", b"in"))
    return Owned(text_of(top), int(uid), int(size), int(inodes), int(old), sorts, *named)


def things(rows: Iterable[list[bytes]], kind: bytes) -> tuple[Thing, ...]:
    """The largest first."""
    found = [Thing(text_of(row[5]), int(row[1]), int(row[2]), int(row[3]), int(row[4])) for row in rows if row[0] == kind]
    return tuple(sorted(found, key=lambda thing: (-thing.bytes, thing.path)))


def text_of(name: bytes) -> str:
    """To be shown, never to be opened: what is not UTF-8 and what no terminal should see is told as \\xNN."""
    whole = name.decode(errors="backslashreplace")
    return whole if len(whole) <= LONGEST_PATH else f"…{whole[-LONGEST_PATH:]}"
