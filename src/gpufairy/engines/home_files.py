"""Files of a home listed, read and written, for moving it elsewhere: this runs where the home is, with its owner's own rights.

    home_files list|hash|read|write FOLDER

A program of its own: it needs nothing but the standard library. What it is told and what it says are lines of JSON; before the bytes of
a file comes a line that says how many they are. No link on the way to a file is followed.
"""
import contextlib
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from io import FileIO
from typing import Any, BinaryIO

Line = dict[str, Any]

PIECE_BYTES = 512 * 2**10  # of a file at a time: with its line, it goes into the body of one request
PART = ".fairy-move-"  # a file that is not whole yet
OURS = ".fairy"  # at the top: what the server keeps in homes on some engines
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
LONGEST_LINE = 64 * 2**10


def part_name(path: str, size_bytes: int, mtime_ns: int) -> str:
    """Of one version of a file: what was sent of another is never gone on with."""
    return PART + hashlib.sha256(os.fsencode(f"{path}\0{size_bytes}\0{mtime_ns}")).hexdigest()[:16]


def parts_of(path: str) -> list[str]:
    """Raises ValueError: no path below a home."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts) or parts[0] == OURS or parts[-1].startswith(PART):
        raise ValueError("no path in a home")
    return parts


def opened(root: int, folders: list[str], *, make: bool = False) -> int:
    """A folder below; link for link refused."""
    here = os.dup(root)
    for name in folders:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=here)
            below = os.open(name, FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


@contextlib.contextmanager
def folder_of(root: int, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """That it is in, opened, and its name there."""
    *folders, name = parts_of(path)
    here = opened(root, folders, make=make)
    try:
        yield here, name
    finally:
        os.close(here)


def listed(root: int) -> Iterator[Line]:
    """What is neither file, folder nor link is counted alone: sockets and pipes mean nothing elsewhere."""
    waiting, others = [""], 0
    while waiting:
        path = waiting.pop()
        try:
            here = opened(root, path.split("/") if path else [])
        except OSError as error:
            yield {"path": path, "error": error.strerror}
            continue
        try:
            for entry in os.scandir(here):
                below = f"{path}/{entry.name}" if path else entry.name
                found = None if below == OURS else seen(here, entry.name, below)
                if found is not None:
                    yield found
                    if found.get("kind") == "folder":
                        waiting.append(below)
                elif below != OURS:
                    others += 1
        finally:
            os.close(here)
    yield {"done": True, "others": others}


def seen(here: int, name: str, path: str) -> Line | None:
    try:
        about = os.stat(name, dir_fd=here, follow_symlinks=False)
        kind = KINDS.get(stat.S_IFMT(about.st_mode))
        if kind is None:
            return None
        if name.startswith(PART):
            return {"part": path, "size": about.st_size}
        target = {"target": os.readlink(name, dir_fd=here)} if kind == "link" else {}
    except OSError as error:
        return {"path": path, "error": error.strerror}
    return {
        "path": path, "kind": kind, "size": about.st_size if kind == "file" else 0, "mtime_ns": about.st_mtime_ns,
        "mode": stat.S_IMODE(about.st_mode) & 0o777, **target,
    }  # fmt: skip


def open_file(root: int, path: str) -> FileIO:
    with folder_of(root, path) as (here, name):
        found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(0, "no plain file")
    return FileIO(found, "rb")


def hashed(root: int, wanted: Iterable[Line]) -> Iterator[Line]:
    for line in wanted:
        path = str(line["path"])
        try:
            with open_file(root, path) as file:
                yield {"path": path, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
        except (OSError, ValueError) as error:
            yield {"path": path, "error": words(error)}
    yield {"done": True}


def read_out(root: int, wanted: Iterable[Line]) -> Iterator[tuple[Line, bytes]]:
    """Each from where it is asked on, in pieces. One that becomes shorter meanwhile ends there."""
    for line in wanted:
        path, offset = str(line["path"]), int(line.get("offset", 0))
        try:
            with open_file(root, path) as file:
                about = os.fstat(file.fileno())
                told = {"path": path, "size": about.st_size, "mtime_ns": about.st_mtime_ns, "mode": stat.S_IMODE(about.st_mode) & 0o777}
                file.seek(offset)
                while True:
                    piece = file.read(PIECE_BYTES)
                    last = offset + len(piece) >= about.st_size or not piece
                    yield {**told, "kind": "file", "offset": offset, "length": len(piece), "last": last}, piece
                    offset += len(piece)
                    if last:
                        break
        except (OSError, ValueError) as error:
            yield {"path": path, "error": words(error), "length": 0}, b""
    yield {"done": True, "length": 0}, b""


def written(root: int, frames: Iterable[tuple[Line, bytes]]) -> Iterator[Line]:
    """A line for each."""
    for told, content in frames:
        path = str(told.get("path", ""))
        try:
            put(root, path, told, content)
        except (OSError, ValueError, KeyError, TypeError) as error:
            yield {"path": path, "error": words(error)}
        else:
            yield {"path": path}


def put(root: int, path: str, told: Line, content: bytes) -> None:
    kind = told["kind"]
    if kind == "folder":
        made = opened(root, parts_of(path), make=True)
        try:
            os.fchmod(made, int(told["mode"]) & 0o777 | 0o700)  # whoever moves it must get in
        finally:
            os.close(made)
        return
    with folder_of(root, path, make=True) as (here, name):
        if kind == "link":
            put_link(here, name, str(told["target"]))
        elif kind == "time":
            os.utime(name, ns=(int(told["mtime_ns"]),) * 2, dir_fd=here, follow_symlinks=False)
        elif kind == "file":
            put_piece(here, name, path, told, content)
        else:
            raise ValueError(f"kind {str(kind)[:20]!r} is not known")


def put_link(here: int, name: str, target: str) -> None:
    beside = part_name(name, 0, 0)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=here)
    os.symlink(target, beside, dir_fd=here)
    os.rename(beside, name, src_dir_fd=here, dst_dir_fd=here)


def put_piece(here: int, name: str, path: str, told: Line, content: bytes) -> None:
    """Beside its place, then renamed: half a file is never taken for a whole one."""
    part = part_name(path, int(told["size"]), int(told["mtime_ns"]))
    found = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=here)
    with os.fdopen(found, "wb", 0) as file:
        offset = int(told["offset"])
        if os.fstat(found).st_size < offset:
            raise ValueError(f"of this file only {os.fstat(found).st_size} bytes have come, and these begin at {offset}")
        os.ftruncate(found, offset)
        file.seek(offset)
        view = memoryview(content)
        while view:
            view = view[file.write(view) or 0 :]
        if not told["last"]:
            return
        os.fchmod(found, int(told["mode"]) & 0o777)
        os.utime(found, ns=(int(told["mtime_ns"]),) * 2)
    os.rename(part, name, src_dir_fd=here, dst_dir_fd=here)


def words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def lines_from(source: BinaryIO) -> Iterator[Line]:
    while line := source.readline(LONGEST_LINE):
        yield json.loads(line)


def frames_from(source: BinaryIO) -> Iterator[tuple[Line, bytes]]:
    for told in lines_from(source):
        length = int(told.get("length", 0))
        if not 0 <= length <= 2 * PIECE_BYTES:
            raise ValueError(f"a piece of {length} bytes is too long")
        content = source.read(length)
        if len(content) < length:
            return  # whoever sent it is gone; what it was a piece of is not taken for whole
        yield told, content


def frame(told: Line, content: bytes = b"") -> bytes:
    return json.dumps(told).encode() + b"\n" + content


def main(what: str, folder: str) -> None:
    root, source, out = os.open(folder, FOLDER), sys.stdin.buffer, sys.stdout.buffer
    if what == "list":
        out.writelines(frame(line) for line in listed(root))
    elif what == "hash":
        out.writelines(frame(line) for line in hashed(root, lines_from(source)))
    elif what == "read":
        for told, content in read_out(root, lines_from(source)):
            out.write(frame(told, content))
    elif what == "write":
        for line in written(root, frames_from(source)):
            out.write(frame(line))
            out.flush()
    out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
