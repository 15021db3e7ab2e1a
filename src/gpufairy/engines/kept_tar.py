"""A home as one tar file, its links as links. Whoever still has it open may be at work there, so it is entered by descriptor.

`tarfile` would look a file up by its name twice, and read whatever a link put there in between leads to.
"""
import os
import stat
import tarfile
from pathlib import Path

from gpufairy.engines.beneath import FILE, open_if_there, open_top

DEEPEST = 500  # folders within folders: each holds a descriptor while it is gone through
BARE = {stat.S_IFIFO: tarfile.FIFOTYPE, stat.S_IFCHR: tarfile.CHRTYPE, stat.S_IFBLK: tarfile.BLKTYPE}


class KeptTar:
    """What cannot be in it (sockets), is gone meanwhile or lies too deep is left out: whoever packs compares what came in."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._names: dict[tuple[int, int], str] = {}  # of files with several names, the first of each

    def add(self, parent: Path, name: str) -> None:
        above = open_top(parent)
        try:
            self._add(above, name, name, DEEPEST)
        finally:
            os.close(above)

    def _add(self, above: int, name: str, path: str, depth: int) -> None:
        try:
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            kind = stat.S_IFMT(found.st_mode)
            if kind == stat.S_IFDIR and depth:
                self._folder(above, name, path, depth)
            elif kind == stat.S_IFREG:
                self._file(above, name, path)
            elif kind == stat.S_IFLNK:
                self._tar.addfile(header(path, found, tarfile.SYMTYPE, target=os.readlink(name, dir_fd=above)))
            elif kind in BARE:
                self._tar.addfile(header(path, found, BARE[kind]))
        except (FileNotFoundError, NotADirectoryError):  # another thing by now, or none
            return

    def _folder(self, above: int, name: str, path: str, depth: int) -> None:
        here = open_if_there(above, name)
        if here is None:
            return
        try:
            self._tar.addfile(header(path, os.fstat(here), tarfile.DIRTYPE))
            for below in sorted(os.listdir(here)):
                self._add(here, below, f"{path}/{below}", depth - 1)
        finally:
            os.close(here)

    def _file(self, above: int, name: str, path: str) -> None:
        here = open_if_there(above, name, FILE)
        if here is None:
            return
        with os.fdopen(here, "rb") as file:
            found = os.fstat(here)
            if not stat.S_ISREG(found.st_mode):
                return
            first = self._names.setdefault((found.st_dev, found.st_ino), path) if found.st_nlink > 1 else path
            if first != path:
                self._tar.addfile(header(path, found, tarfile.LNKTYPE, target=first))
                return
            self._tar.addfile(header(path, found, tarfile.REGTYPE, size=found.st_size), file)


def header(path: str, found: os.stat_result, kind: bytes, *, size: int = 0, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(path)
    made.type, made.size, made.linkname = kind, size, target
    made.mode, made.uid, made.gid, made.mtime = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime
    if kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
        made.devmajor, made.devminor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return made
