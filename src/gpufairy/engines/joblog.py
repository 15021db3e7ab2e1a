"""Logs of process sessions: one file each, appended to by the workload itself, read by offset, cut in the middle when too large.

A cut is a hole punched into the file: offsets stay true, the writer notices nothing, and readers say that something is missing.
"""
import asyncio
import ctypes
import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from gpufairy.core.amounts import show_size

HEAD_BYTES = 2**20  # kept from the beginning: how it was started is worth more than the middle of a flood
CHUNK_BYTES = 256 * 2**10
BLOCK = 4096  # holes are made of whole blocks, else the rest of one is filled with zeros
FIRST_POLL_S, LONGEST_POLL_S = 0.02, 0.1  # a quiet log is looked at ten times a second: a new line still feels immediate
PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE

_libc = ctypes.CDLL(None, use_errno=True)


def open_log(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def cut_log(path: Path, cap_bytes: int) -> bool:
    """Cut the middle out if the file takes more room than the cap. Whether something was cut: at times there is nothing to take."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if found.st_blocks * 512 <= cap_bytes:
        return False
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return _cut_open(descriptor, os.fstat(descriptor).st_size, cap_bytes)
    finally:
        os.close(descriptor)


def _cut_open(descriptor: int, size: int, cap_bytes: int) -> bool:
    head = min(HEAD_BYTES, cap_bytes // 4)
    begin = -(-head // BLOCK) * BLOCK
    end = (size - cap_bytes // 2) // BLOCK * BLOCK
    if end <= begin:
        return False
    before = os.fstat(descriptor).st_blocks
    if _punched(descriptor, begin, end - begin):
        # A hole on top of a hole frees nothing: what is over the cap then is what is kept, or room the file system lent ahead.
        return os.fstat(descriptor).st_blocks < before
    # No holes on this file system. Copying the tail forward would race with the writer, so all of it goes.
    os.ftruncate(descriptor, 0)
    os.write(descriptor, notice(size, cap_bytes))
    return True


def _punched(descriptor: int, offset: int, length: int) -> bool:
    done = _libc.fallocate(descriptor, PUNCH_HOLE_KEEP_SIZE, ctypes.c_longlong(offset), ctypes.c_longlong(length))
    return bool(done == 0)


def notice(missing_bytes: int, cap_bytes: int) -> bytes:
    return f"\n[… {show_size(missing_bytes)} of log cut here: the cap is {show_size(cap_bytes)} …]\n".encode()


async def read_log(
    path: Path, cap_bytes: int, *, follow: bool, over: Callable[[], bool], from_bytes: int = 0
) -> AsyncIterator[bytes]:
    """What stands from there on; then, when following, what is added until `over()`. One that is not there yet: nothing, or it waits."""
    descriptor = await _when_there(path, wait=follow)
    if descriptor is None:
        return
    try:
        offset, pause_s = from_bytes, FIRST_POLL_S
        while True:
            # Asked before the last read: what was written before it ended is then surely read.
            last = not follow or over()
            while (found := next_chunk(descriptor, offset, cap_bytes)) is not None:
                chunk, offset = found
                pause_s = FIRST_POLL_S
                yield chunk
                await asyncio.sleep(0)  # a large log must not hold up the server
            if last:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_POLL_S, pause_s * 1.5)
    finally:
        os.close(descriptor)


async def _when_there(path: Path, *, wait: bool) -> int | None:
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            if not wait:
                return None
        await asyncio.sleep(LONGEST_POLL_S)


def log_size(path: Path) -> int:
    """With what was cut out of its middle; 0 if there is none."""
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def next_chunk(descriptor: int, offset: int, cap_bytes: int) -> tuple[bytes, int] | None:
    """The next bytes and the offset after them; a hole comes as one line that says so. None: nothing more for now."""
    size = os.fstat(descriptor).st_size
    if offset > size:  # emptied, where no holes can be punched
        offset = 0
    if offset == size:
        return None
    data = _data_from(descriptor, offset, size)
    if data > offset:
        # Never longer than what is missing: who counts what they were sent and comes back with that must not skip anything.
        return notice(data - offset, cap_bytes)[: data - offset], data
    hole = os.lseek(descriptor, offset, os.SEEK_HOLE)
    chunk = os.pread(descriptor, min(CHUNK_BYTES, hole - offset), offset)
    return (chunk, offset + len(chunk)) if chunk else None


def _data_from(descriptor: int, offset: int, size: int) -> int:
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole up to the end
            return size
        raise
