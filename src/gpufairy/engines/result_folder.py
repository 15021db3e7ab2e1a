"""Files of a folder of results, listed and read one by one. As in the archive no link leads anywhere: each step refuses them."""
import asyncio
import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path

from gpufairy.core.amounts import shown
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.result_file import ResultBytes, ResultFile, ResultFiles
from gpufairy.engines.archive import DEEPEST, exactly, pumped
from gpufairy.engines.beneath import FILE, open_beneath, open_if_there, open_top

MOST_LOOKED_AT = 10_000  # a hundredth of a second or two; a job may leave millions


async def result_files(parent: Path, name: str, most: int) -> ResultFiles:
    return await asyncio.to_thread(listed, parent, name, most)


async def result_file(parent: Path, name: str, path: str) -> ResultBytes:
    size = await asyncio.to_thread(size_of, parent, name, path)
    return ResultBytes(size, pumped(read_out(parent, name, path, size)))


def listed(parent: Path, name: str, most: int) -> ResultFiles:
    files: list[ResultFile] = []
    size_bytes, whole = 0, True
    for file in below(parent, name):
        if len(files) == MOST_LOOKED_AT:
            whole = False
            break
        files.append(file)
        size_bytes += file.size_bytes
    told = sorted((file for file in files if is_text(file.path)), key=lambda file: file.path)
    return ResultFiles(tuple(told[:most]), len(files), size_bytes, whole)


def below(parent: Path, name: str) -> Iterator[ResultFile]:
    try:
        above = open_top(parent)
    except FileNotFoundError:
        return
    try:
        yield from entered(above, name, "", DEEPEST)
    finally:
        os.close(above)


def entered(above: int, name: str, prefix: str, depth: int) -> Iterator[ResultFile]:
    folder = open_if_there(above, name)
    if folder is None:  # as if it had never been there
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    found = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield ResultFile(prefix + entry.name, found.st_size)
                elif stat.S_ISDIR(found.st_mode) and depth > 0:
                    yield from entered(folder, entry.name, f"{prefix}{entry.name}/", depth - 1)
    finally:
        os.close(folder)


def is_text(path: str) -> bool:
    """A file may be named by any bytes; in an address stands text of one line alone. The archive has the others too."""
    return not any("\ud800" <= char <= "\udfff" or char in "\r\n" for char in path)


def opened(parent: Path, name: str, path: str) -> int:
    """A descriptor of that very file: one that became a link, a pipe or a folder is none of the results."""
    if not all(part and part not in (".", "..") and "\0" not in part for part in path.split("/")) or not is_text(path):
        raise not_there(path)
    above = open_top(parent)
    try:
        descriptor = open_beneath(above, f"{name}/{path}", FILE)
    except OSError:
        raise not_there(path) from None
    finally:
        os.close(above)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_there(path)
    return descriptor


def size_of(parent: Path, name: str, path: str) -> int:
    descriptor = opened(parent, name, path)
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def read_out(parent: Path, name: str, path: str, size: int) -> Generator[bytes, None, None]:
    """Opened when the first bytes are asked for: whoever leaves before that leaves no descriptor behind."""
    descriptor = opened(parent, name, path)
    try:
        yield from exactly(descriptor, size)
    finally:
        os.close(descriptor)


def not_there(path: str) -> NoSuchThing:
    return NoSuchThing(f"there is no file {shown(path)} among the results", "See its page, or `fairy results NAME --list`.")
