"""A folder of a user's as a tar stream. The server reads it, so no link in it may lead anywhere: links are left out, not followed.

Folders are entered by descriptor, one step at a time, each step refusing links; no path is ever looked up as a whole.
"""
import asyncio
import os
import stat
import tarfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

from gpufairy.engines.beneath import FILE, open_if_there, open_top

CHUNK_BYTES = 256 * 2**10
BLOCK = 512
DEEPEST = 64  # folders within folders; each holds a descriptor while it is read


def tar_stream(parent: Path, name: str) -> AsyncIterator[bytes]:
    """The folder `name` in `parent`. Empty when there is nothing in it."""
    return pumped(tar_chunks(parent, name))


async def pumped(chunks: Generator[bytes, None, None]) -> AsyncIterator[bytes]:
    """Read by a thread, a chunk at a time."""
    loop = asyncio.get_running_loop()
    reading: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            reading = loop.run_in_executor(None, next, chunks, None)
            chunk = await asyncio.shield(reading)
            if chunk is None:
                return
            yield chunk
    finally:
        if reading is not None and not reading.done():  # cancelled in the middle: the thread still holds the generator
            await asyncio.wait([reading])
        chunks.close()


def tar_chunks(parent: Path, name: str) -> Generator[bytes, None, None]:
    """Pieces gathered to a good size, so that a thousand small files are not a thousand round trips to the thread."""
    gathered = bytearray()
    for piece in _tar(parent, name):
        gathered += piece
        if len(gathered) >= CHUNK_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _tar(parent: Path, name: str) -> Iterator[bytes]:
    try:
        above = open_top(parent)
    except FileNotFoundError:
        return
    wrote = False
    try:
        for piece in _entered(above, name, "", DEEPEST):
            wrote = True
            yield piece
    finally:
        os.close(above)
    if wrote:
        yield bytes(2 * BLOCK)  # how a tar ends


def _entered(above: int, name: str, prefix: str, depth: int) -> Iterator[bytes]:
    folder = open_if_there(above, name)
    if folder is None:  # as if it had never been there
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield from _entry(folder, entry.name, prefix + entry.name, depth)
    finally:
        os.close(folder)


def _entry(folder: int, name: str, path: str, depth: int) -> Iterator[bytes]:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISDIR(found.st_mode) and depth > 0:
        yield _header(path + "/", found, tarfile.DIRTYPE, 0)
        yield from _entered(folder, name, path + "/", depth - 1)
    elif stat.S_ISREG(found.st_mode):
        yield from _file(folder, name, path)


def _file(folder: int, name: str, path: str) -> Iterator[bytes]:
    descriptor = open_if_there(folder, name, FILE)
    if descriptor is None:
        return
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):  # changed under our hands
            return
        yield _header(path, found, tarfile.REGTYPE, found.st_size)
        yield from exactly(descriptor, found.st_size)
        yield bytes(-found.st_size % BLOCK)
    finally:
        os.close(descriptor)


def exactly(descriptor: int, size: int) -> Iterator[bytes]:
    """As many bytes as the header says, though the file may grow or shrink meanwhile: else every later entry is misread."""
    left = size
    while left > 0:
        piece = os.read(descriptor, min(CHUNK_BYTES, left)) or bytes(min(CHUNK_BYTES, left))
        left -= len(piece)
        yield piece


def _header(path: str, found: os.stat_result, kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo(path)
    info.type, info.size, info.mtime, info.mode = kind, size, int(found.st_mtime), stat.S_IMODE(found.st_mode) & 0o777
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
