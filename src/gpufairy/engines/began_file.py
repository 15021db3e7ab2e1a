"""How far a session's command came, as its porter keeps it (native/once.c) in a file that outlives the container.

A Docker killed while it starts a container may forget that it did: this file is how a second start is known.
The session may write to it, and harms itself alone.
"""
import contextlib
import os
from pathlib import Path

BEGAN = "began"  # in a run folder
INSIDE = f"/run/fairy/{BEGAN}"
NEW, AGAIN = b"new\n", b"two\n"
RECORD = len(NEW)


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
