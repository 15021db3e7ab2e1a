"""What a session tells of its changes (layer_inside.py) made into a layer of an image: a tar, compressed, in a file.

A session's owner has every process in it in their hand, so each line is believed as little as anything that users send: it is checked, and
written anew. Nothing is ever unpacked here.
"""
import hashlib
import json
import os
import tarfile
import zlib
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from gpufairy.core.errors import EngineRefused

LONGEST_LINE, LONGEST_PATH = 64 * 2**10, 4096
MOST_ENTRIES = 500_000  # their paths are kept in memory meanwhile
BLOCK = 512
LEVEL = 1  # of compression: more costs much time for little room
GZIP = 31  # zlib's word for gzip's frame around it
KINDS = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}
WHITEOUT = ".wh."  # what a layer calls a file that is gone in it
LEAST_FREE = 512 * 2**20  # bytes that the server's own disk keeps
LOOK_EVERY = 16 * 2**20  # at how much is free


@dataclass(frozen=True, slots=True)
class Bounds:
    most_bytes: int  # of the tar
    mounted: tuple[str, ...]  # paths below which nothing is taken


@dataclass(slots=True)
class LayerFile:
    """Feed it what the session says; then `gone`, and `finish`."""

    file: BinaryIO
    bounds: Bounds
    changed_folders: list[str] = field(default_factory=list)
    left_out: int = 0  # files that could not be read
    entries: int = 0
    size_bytes: int = 0  # compressed
    _rest: bytearray = field(default_factory=bytearray)
    _left: int = 0  # bytes of the file that is being told
    _padding: int = 0
    _ended: bool = False
    _tar_bytes: int = 0
    _looked_at: int = 0
    _paths: dict[str, str] = field(default_factory=dict)  # what was told so far, and its kind
    _packed: Any = field(default_factory=lambda: zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP))
    _whole: Any = field(default_factory=hashlib.sha256)
    _compressed: Any = field(default_factory=hashlib.sha256)

    def feed(self, data: bytes) -> None:
        """Raises EngineRefused."""
        at = 0
        while at < len(data):
            if self._left:
                taken = data[at : at + self._left]
                at, self._left = at + len(taken), self._left - len(taken)
                self._put(taken)
                if not self._left:
                    self._put(bytes(self._padding))
                continue
            end = data.find(b"\n", at)
            self._rest += data[at : end if end >= 0 else len(data)]
            if len(self._rest) > LONGEST_LINE:
                raise nonsense("a line is too long")
            if end < 0:
                return
            at = end + 1
            self._line(bytes(self._rest))
            self._rest.clear()

    def gone(self, path: str) -> None:
        """It is in the image, and not in the session."""
        if path in self._paths:  # it went while its session told of it
            return
        self._check_path(path)
        folder, _, name = path.rpartition("/")
        self._header(tarfile.TarInfo(f"{folder}/{WHITEOUT}{name}".lstrip("/")))

    def finish(self) -> tuple[str, str]:
        """The digests: of the file, and of what it is when it is unpacked."""
        if not self._ended or self._left or self._rest:
            raise EngineRefused("the session broke off while it told of its files", "Try again.")
        self._put(bytes(2 * BLOCK))
        self._write(self._packed.flush())
        self.file.flush()
        return f"sha256:{self._compressed.hexdigest()}", f"sha256:{self._whole.hexdigest()}"

    def _line(self, line: bytes) -> None:
        told = read_line(line)
        if self._ended:
            raise nonsense("there is something behind its end")
        if told.get("kind") == "end":
            self._ended, self.left_out = True, number(told, "left_out", MOST_ENTRIES)
            return
        kind, path = str(told.get("kind")), told.get("path")
        if kind not in KINDS or not isinstance(path, str):
            raise nonsense(f"{line[:80]!r}")
        self._check_path(path)
        info = tarfile.TarInfo(path)
        # What runs in a session has no privileges to win by such a bit; whoever runs the image elsewhere shall not lose any by it either.
        info.type, info.mode = KINDS[kind], number(told, "mode", 0o7777) & 0o1777
        info.uid, info.gid, info.mtime = number(told, "uid", 2**32), number(told, "gid", 2**32), number(told, "mtime", 2**33)
        if kind in ("symlink", "hard"):
            info.linkname = self._target(kind, told.get("target"))
        if kind == "file":
            info.size = number(told, "size", 2**60)
        if kind == "dir" and told.get("changed") is True:
            self.changed_folders.append(path)
        self._paths[path] = kind
        self._header(info)
        self._left, self._padding = info.size, -info.size % BLOCK

    def _check_path(self, path: str) -> None:
        parts = path.split("/")
        if len(path) > LONGEST_PATH or "\0" in path or any(part in ("", ".", "..") or part.startswith(WHITEOUT) for part in parts):
            raise nonsense(f"{path[:80]!r} is no path")
        if path in self._paths:
            raise nonsense(f"{path[:80]!r} is told twice")
        if any(path == mount or path.startswith(f"{mount}/") for mount in self.bounds.mounted):
            raise nonsense(f"{path[:80]!r} is not of its image")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        if any(self._paths.get(one, "dir") != "dir" for one in above):  # a link there would lead whoever unpacks it anywhere
            raise nonsense(f"{path[:80]!r} lies below what is no folder")

    def _target(self, kind: str, target: object) -> str:
        if not isinstance(target, str) or not target or len(target) > LONGEST_PATH or "\0" in target:
            raise nonsense("a link leads nowhere")
        if kind == "hard" and self._paths.get(target) != "file":
            raise nonsense(f"{target[:80]!r} was not told before another name of it")
        return target

    def _header(self, info: tarfile.TarInfo) -> None:
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            found = f"the session has changed more than {MOST_ENTRIES} files outside of its home"
            raise EngineRefused(found, "Build such an image by a Dockerfile.")
        try:
            self._put(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        except (ValueError, UnicodeError) as error:
            raise nonsense(f"{info.name[:80]!r} cannot be written: {error}") from error

    def _put(self, data: bytes) -> None:
        self._tar_bytes += len(data)
        if self._tar_bytes > self.bounds.most_bytes:
            most = f"{self.bounds.most_bytes / 2**30:.3g} GiB"
            raise EngineRefused(f"the session has changed more than {most} outside of its home", "Remove what need not be in an image.")
        self._whole.update(data)
        self._write(self._packed.compress(data))

    def _write(self, data: bytes) -> None:
        if not data:
            return
        if self.size_bytes - self._looked_at >= LOOK_EVERY or not self.size_bytes:
            self._looked_at = self.size_bytes
            check_room(self.file.fileno())
        self._compressed.update(data)
        self.size_bytes += len(data)
        try:
            self.file.write(data)
        except OSError as error:
            raise no_room(error) from error


def check_room(descriptor: int) -> None:
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < LEAST_FREE:
        raise no_room(None)


def no_room(error: OSError | None) -> EngineRefused:
    words = f": {error.strerror}" if error is not None else f": less than {LEAST_FREE // 2**20} MiB would be left"
    return EngineRefused(f"the server's disk has no room to make the image on{words}", "Tell an admin; nothing was changed.")


def read_line(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise nonsense(f"{line[:80]!r}") from error
    if not isinstance(told, dict):
        raise nonsense(f"{line[:80]!r}")
    return told


def number(told: dict[str, Any], name: str, most: int) -> int:
    value = told.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise nonsense(f"its {name} is {str(value)[:40]!r}")
    return value


def nonsense(what: str) -> EngineRefused:
    return EngineRefused(f"what the session tells of its files cannot be understood: {what}", "Does something in it change Python itself?")
