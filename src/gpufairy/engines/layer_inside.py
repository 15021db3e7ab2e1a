"""What a session has changed outside of its home, told from within it and with its owner's rights: this runs in its pod.

    layer_inside changes             each file or folder as a line of JSON, a file's bytes behind its line; last {"kind": "end"}
    layer_inside names FOLDER …      what is in these folders: {FOLDER: [NAME, …]}
    layer_inside missing             of such a table, read from the input as one line, what is not there: [PATH, …]
A container's files are a layer above its image's: what is copied up or made there has a change time later than the container itself.
"""
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

CHUNK = 256 * 2**10
# A link that the runtime makes, as root, in each container's own /dev while the container is made: its clock is the files' clock.
MADE_WITH_THE_CONTAINER = "/dev/fd"
SCRATCH = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/proc", "/sys")
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def main(what: str, *words: str) -> None:
    out = sys.stdout.buffer
    if what == "changes":
        tell_changes(out, Path("/"), mount_points(Path("/proc/self/mountinfo").read_text()), os.lstat(MADE_WITH_THE_CONTAINER).st_ctime_ns)
    elif what == "names":
        out.write(json.dumps({folder: names_in(folder) for folder in words}).encode())
    else:
        table: dict[str, list[str]] = json.loads(sys.stdin.buffer.readline())
        paths = (f"{folder}/{name}" for folder, names in table.items() for name in names)
        out.write(json.dumps([path for path in paths if not os.path.lexists(path)]).encode())


def tell_changes(out: BinaryIO, root: Path, mounts: set[str], since_ns: int) -> None:
    told = Telling(out, root, since_ns)
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        for path in inside(folder):
            if path in mounts or path in SCRATCH:
                continue
            try:
                found = os.lstat(path)
            except OSError:  # gone meanwhile
                continue
            if stat.S_ISDIR(found.st_mode):
                folders.append(path)
                # What the runtime made to mount something on is no change of the session's.
                if found.st_ctime_ns > since_ns and not any(mount.startswith(f"{path}/") for mount in mounts):
                    told.folder(path)
            elif found.st_ctime_ns > since_ns:
                told.entry(path, found)
    told.end()


def inside(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entry.path for entry in entries)
    except OSError:  # not theirs to read, so not theirs to have changed
        return


class Telling:
    def __init__(self, out: BinaryIO, root: Path, since_ns: int) -> None:
        self._out, self._root, self._since_ns = out, str(root).rstrip("/"), since_ns
        self._folders: set[str] = {str(root)}
        self._first: dict[tuple[int, int], str] = {}  # of files with several names
        self._left_out = 0

    def folder(self, path: str) -> None:
        """With those above it: a layer says of each folder on the way who owns it."""
        if path in self._folders or path == self._root:
            return
        self.folder(os.path.dirname(path))
        self._folders.add(path)
        found = os.lstat(path)
        changed = found.st_ctime_ns > self._since_ns and os.access(path, os.W_OK)
        self._line("dir", path, found, changed=changed)

    def entry(self, path: str, found: os.stat_result) -> None:
        key = (found.st_dev, found.st_ino)
        if stat.S_ISLNK(found.st_mode):
            self.folder(os.path.dirname(path))
            self._line("symlink", path, found, target=os.readlink(path))
        elif stat.S_ISREG(found.st_mode) and key in self._first and found.st_nlink > 1:
            self.folder(os.path.dirname(path))
            self._line("hard", path, found, target=self._below(self._first[key]))
        elif stat.S_ISREG(found.st_mode):
            self._file(path, key)

    def _file(self, path: str, key: tuple[int, int]) -> None:
        try:
            descriptor = os.open(path, FILE)
        except OSError:
            self._left_out += 1
            return
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):  # changed under our hands
                return
            self.folder(os.path.dirname(path))
            self._line("file", path, found, size=found.st_size)
            left = found.st_size
            while left > 0:  # so many as the line says, though the file may grow or shrink meanwhile
                piece = os.read(descriptor, min(CHUNK, left)) or bytes(min(CHUNK, left))
                self._out.write(piece)
                left -= len(piece)
        finally:
            os.close(descriptor)
        self._first[key] = path

    def end(self) -> None:
        self._out.write(json.dumps({"kind": "end", "left_out": self._left_out}).encode() + b"\n")
        self._out.flush()

    def _line(self, kind: str, path: str, found: os.stat_result, **more: Any) -> None:
        common = {"mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid, "mtime": max(0, int(found.st_mtime))}
        self._out.write(json.dumps({"kind": kind, "path": self._below(path), **common, **more}).encode() + b"\n")

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self._root}/")


def mount_points(mountinfo: str) -> set[str]:
    fields = (line.split(" ") for line in mountinfo.splitlines())
    return {re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[4]) for words in fields if len(words) > 4} - {"/"}


def names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # not in this image: all of it is new
        return []


if __name__ == "__main__":
    main(*sys.argv[1:])
