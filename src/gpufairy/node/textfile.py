"""`gpu_sessions.prom` in node-exporter's textfile folder: written whole under another name, then renamed.

What stands in the way is replaced or told of, never opened: a link is not followed, a FIFO never waited for.
"""
import itertools
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from gpufairy.core.errors import BadInput, Conflict

NAME = "gpu_sessions.prom"
# Not *.prom, or node-exporter would read it half-written; with a dot, so that people do not see it.
PART = re.compile(r"\.gpu_sessions\.[0-9a-f]{16}\.part")
LEFT_AFTER_S = 60.0  # a write takes milliseconds: an older one belongs to a collector that was killed
MOST_LOOKED_AT = 10_000  # files in the folder: it is not ours, and anything may be in it


class Textfile:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cleaned = False

    def write(self, text: bytes, at: datetime) -> None:
        """`at`: when it was collected, which becomes its mtime. On failure the old file is taken away where that can be done: what is stale
        must not look new. Raises BadInput, Conflict."""
        folder = self._open_folder()
        try:
            if not self._cleaned:
                with suppress(OSError):  # whether it can be written to is told by writing
                    remove_left_over(folder, time.time())
                self._cleaned = True
            self._replace(folder, text, at.timestamp())
        finally:
            os.close(folder)

    def remove(self) -> None:
        """At a clean end: nobody would write the next one."""
        with suppress(BadInput):
            folder = self._open_folder()
            try:
                take_away(folder)
            finally:
                os.close(folder)

    def _open_folder(self) -> int:
        try:
            return os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(f"textfile folder {self._folder}: {error.strerror}", "Make it, or name another with --textfile.") from None

    def _replace(self, folder: int, text: bytes, at_s: float) -> None:
        part = f".gpu_sessions.{secrets.token_hex(8)}.part"
        try:
            write_part(folder, part, text, at_s)
            os.rename(part, NAME, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            take_away(folder)
            raise Conflict(f"cannot write {self._folder / NAME}: {error.strerror}", next_step(folder)) from None


def write_part(folder: int, name: str, text: bytes, at_s: float) -> None:
    """Without fsync: it is written anew each few seconds, also after a crash of the machine, and a slow disk must not hold it up."""
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    with open(opened, "wb") as file:
        os.fchmod(opened, 0o644)  # whatever the umask says: node-exporter is another user
        file.write(text)
        file.flush()
        os.utime(opened, (at_s, at_s))


def take_away(folder: int) -> None:
    """unlink takes a link or a FIFO itself, and no folder."""
    with suppress(OSError):
        os.unlink(NAME, dir_fd=folder)


def next_step(folder: int) -> str:
    with suppress(OSError):
        if stat.S_ISDIR(os.stat(NAME, dir_fd=folder, follow_symlinks=False).st_mode):
            return f"{NAME} is a folder there: remove it."
    return "Make room there, and see that the folder can be written to."


def remove_left_over(folder: int, now_s: float) -> None:
    """Half-written files of ours; nobody else's, whatever they are called."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, MOST_LOOKED_AT) if PART.fullmatch(entry.name)]
    for name in names:
        with suppress(OSError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and now_s - found.st_ctime > LEFT_AFTER_S:
                os.unlink(name, dir_fd=folder)
