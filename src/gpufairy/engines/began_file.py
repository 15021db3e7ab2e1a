"""How far a session's command came, as its porter keeps it (native/once.c) in a file that outlives the container.

A Docker killed while it starts a container may forget that it did, and begins anew when told to start it: this file is how the second
start is known. The session may write to it, and harms itself alone.
"""
import contextlib
import os
from pathlib import Path

BEGAN = "began"  # in a run folder
INSIDE = f"/run/fairy/{BEGAN}"
NEW, AGAIN = b"new\n", b"two\n"
RECORD = len(NEW)


def make_began(run: Path, uid: int) -> None:
    """Once for an attempt: one that is there is left as it is."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(run / BEGAN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, NEW)
            os.fchown(descriptor, uid, uid)
        finally:
            os.close(descriptor)


def has_begun(run: Path) -> bool:
    return _found(run) not in (b"", NEW)


def was_begun_again(run: Path) -> bool:
    return _found(run) == AGAIN


def cut_began(run: Path) -> None:
    """Nobody fills the disk by it."""
    with contextlib.suppress(FileNotFoundError):
        if (run / BEGAN).lstat().st_size > RECORD:
            os.truncate(run / BEGAN, RECORD)


def _found(run: Path) -> bytes:
    try:
        with open(run / BEGAN, "rb") as file:
            return file.read(RECORD)
    except FileNotFoundError:
        return b""
