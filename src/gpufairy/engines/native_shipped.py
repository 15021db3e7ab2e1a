"""Native parts that a wheel or an image brings ready, by kind of machine; and the note beside them that says what they are made of."""
import json
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

NOTE = "made.json"
NEEDED = re.compile(rb"GLIBC_(\d+)\.(\d+)")  # how a library says what it needs, in its table of versions
DYNAMIC = "fairy-user.so"  # the one part that this machine's own C library is loaded with; all others bring theirs, or need none

Version = tuple[int, int]


def find_shipped(within: Path, parts: Iterable[str], source: str | None) -> Path | None:
    """The folder of those for this machine, if all are there, made of this very source, and its C library is new enough.

    `source`: its hash; None: there is none here to compare with, as in an image."""
    folder = within / platform.machine()
    if not all(os.access(folder / name, os.X_OK) for name in parts):
        return None
    try:
        told = json.loads((folder / NOTE).read_text())
        is_same, needed = source in (None, told["source"]), (int(told["glibc"][0]), int(told["glibc"][1]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return folder if is_same and needed <= own_glibc() else None


def write_note(folder: Path, source: str) -> None:
    (folder / NOTE).write_text(json.dumps({"source": source, "glibc": needed_glibc(folder / DYNAMIC)}) + "\n")


def needed_glibc(library: Path) -> Version:
    """The newest that it asks for."""
    return max(((int(one[1]), int(one[2])) for one in NEEDED.finditer(library.read_bytes())), default=(0, 0))


def own_glibc() -> Version:
    """(0, 0): this machine has another C library, or does not say."""
    try:
        told = re.fullmatch(r"glibc (\d+)\.(\d+).*", os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (OSError, ValueError):
        told = None
    return (int(told[1]), int(told[2])) if told else (0, 0)
