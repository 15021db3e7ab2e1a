"""What was found on this host's disks and the server does not have yet: the newest of each place, in a file each, until it was taken."""
import contextlib
import hashlib
import json
import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpufairy.core.disk import DiskLook, Unmeasured
from gpufairy.core.disk_report import plain_failure, told_of

log = logging.getLogger("gpufairy.agent")

LARGEST_FILE = 4 * 2**20  # of ours: anything larger is not
NO_PLACE = ""  # the report that only says which places there are


Mark = tuple[int, int]  # which file it is: inode and time of writing


@dataclass(frozen=True, slots=True)
class Waiting:
    file: Path
    mark: Mark | None
    told: dict[str, Any]


class Untold:
    """One agent's, in a folder of its own. Nothing of it stays in memory but names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with contextlib.suppress(OSError):  # then nothing outlives the agent, and the next walk tells it again
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, found: DiskLook | Unmeasured) -> None:
        """In place of what waits of the same place. What cannot be kept is told by the next walk."""
        part = {"look": told_of(found)} if isinstance(found, DiskLook) else {"failed": plain_failure(found)}
        self._write(found.place.path, part)

    def keep_places(self) -> None:
        """That the server is told of which places there are, also if nothing is found in any."""
        self._write(NO_PLACE, {})

    def first(self, places: Collection[str]) -> Waiting | None:
        """One that waits; those of folders that are walked through no more go. None: all is told."""
        for file in sorted(self._folder.glob("*.json")):
            mark = mark_of(file)
            kept = read_kept(file)
            if kept is not None and (kept["path"] == NO_PLACE or kept["path"] in places):
                return Waiting(file, mark, kept["told"])
            with contextlib.suppress(OSError):
                file.unlink()
        return None

    def taken(self, waiting: Waiting) -> None:
        """Unless a newer one has come in its place meanwhile."""
        if mark_of(waiting.file) == waiting.mark:
            with contextlib.suppress(OSError):
                waiting.file.unlink()

    def _file(self, path: str) -> Path:
        return self._folder / f"{hashlib.sha256(path.encode()).hexdigest()[:16]}.json"

    def _write(self, path: str, told: dict[str, Any]) -> None:
        file = self._file(path)
        beside = file.with_suffix(".new")
        try:
            beside.write_text(json.dumps({"path": path, "told": told}, separators=(",", ":")))
            beside.replace(file)
        except OSError as error:
            log.warning("what lies in %s cannot be kept for the server: %s", path, error.strerror)


def mark_of(file: Path) -> Mark | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def read_kept(file: Path) -> dict[str, Any] | None:
    """None: it is none of ours, or was cut."""
    try:
        kept = json.loads(file.read_bytes()) if file.stat().st_size <= LARGEST_FILE else None
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(kept, dict) and isinstance(kept.get("path"), str) and isinstance(kept.get("told"), dict)
    return kept if whole else None


def report_of(told: dict[str, Any], places: Collection[str], now: datetime) -> bytes:
    """`now`: by which the server sees whether this host's clock is right."""
    return json.dumps({"sent_at": now.isoformat(), "places": sorted(places), **told}, separators=(",", ":")).encode()
