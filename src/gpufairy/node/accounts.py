"""Names of a host's accounts, by uid: of directories (LDAP, sssd) too, which may be slow or silent and are asked aside."""
import pwd
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from gpufairy.node.aside import Aside
from gpufairy.node.proc_text import printable

ROOT = Path("/")
WAIT_S = 0.2  # for a directory: a healthy one answers in a few milliseconds
GOOD_S = 600.0  # accounts are seldom renamed
LONGEST_NAME = 64
MOST_KEPT = 4096


class Accounts:
    """`root`: where the host's own files lie, seen from a container."""

    def __init__(self, root: Path = ROOT, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root, self._monotonic = root, monotonic
        self._directory: Aside[int, str | None] = Aside(name_in_directory, "account")
        self._names: dict[int, str] = {}
        self._own: dict[int, str] = {}
        self._lent: list[tuple[int, int, str]] = []
        self._read_s: float | None = None

    def name(self, uid: int) -> str:
        """`alice`, also for the uids that are lent to alice for her rootless containers; `uid 20001` for one that has no name."""
        if self._read_s is None or self._monotonic() - self._read_s > GOOD_S:
            self._read_files()
        found = self._names.get(uid)
        return found if found is not None else self._find(uid)

    def _find(self, uid: int) -> str:
        name = self._own.get(uid) or self._lender(uid)
        if name is None:
            answers = self._directory.answers([uid], WAIT_S)
            if uid not in answers:
                return unnamed(uid)  # not kept: it is still being asked
            name = answers[uid] or unnamed(uid)
        if len(self._names) < MOST_KEPT:
            self._names[uid] = name
        return name

    def _lender(self, uid: int) -> str | None:
        place = bisect_right(self._lent, (uid, 2**63, "")) - 1
        if place < 0:
            return None
        first, count, lender = self._lent[place]
        if uid >= first + count:
            return None
        return self._own.get(int(lender), unnamed(int(lender))) if _is_uid(lender) else lender

    def _read_files(self) -> None:
        self._read_s = self._monotonic()
        self._names.clear()
        self._own = {int(row[2]): printable(row[0], LONGEST_NAME) for row in _rows(self._root / "etc/passwd", 7) if _is_uid(row[2])}
        lent = [row for row in _rows(self._root / "etc/subuid", 3) if _is_uid(row[1]) and _is_uid(row[2])]
        self._lent = sorted((int(row[1]), int(row[2]), printable(row[0], LONGEST_NAME)) for row in lent)


def unnamed(uid: int) -> str:
    return f"uid {uid}"


def _is_uid(text: str) -> bool:
    return text.isdecimal() and len(text) <= 10


def name_in_directory(uid: int) -> str | None:
    try:
        return printable(pwd.getpwuid(uid).pw_name, LONGEST_NAME)
    except (KeyError, OverflowError):
        return None


def _rows(path: Path, fields: int) -> list[list[str]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # an image without one: then the directory is asked
        return []
    return [row for line in text.split("\n") if len(row := line.split(":")) == fields]
