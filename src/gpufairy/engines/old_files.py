"""Files that would grow or gather for ever: logs of our own, and tools of versions that nobody runs any more."""
import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from gpufairy.core.session import Session
from gpufairy.core.upkeep import unused_tools

KEPT_LOGS = 3
USED = ".used.json"  # in the folder of tools: until when each was the one that new sessions got
CURRENT = ".current"
COPIED_AT_ONCE = 2**20
NOTED_EVERY = timedelta(minutes=10)  # far less than what the rule leaves as slack


@dataclass(frozen=True, slots=True)
class OldFiles:
    tools: Path
    logs: tuple[Path, ...]
    log_bytes: int

    def look(self, now: datetime) -> None:
        for log in self.logs:
            with contextlib.suppress(FileNotFoundError):
                if log.stat().st_size > self.log_bytes:
                    begin_anew(log)
        note_used(self.tools, now)

    def remove_unused_tools(self, holding: Sequence[Session], now: datetime) -> int:
        used, current = read_used(self.tools), read_current(self.tools)
        if current is None:
            return 0
        gone = unused_tools(used, {current}, holding, now)
        for name in gone:
            # Renamed first: half a folder must never be taken for a whole one.
            away = self.tools / f".old-{name}"
            with contextlib.suppress(FileNotFoundError):
                os.rename(self.tools / name, away)
            shutil.rmtree(away, ignore_errors=True)
        write_used(self.tools, {name: at for name, at in used.items() if name not in gone})
        return len(gone)


def begin_anew(log: Path) -> None:
    """Copied, then emptied in place: several processes append to one log, and none of them need be told.

    A line that comes between the last look and the emptying is lost; nothing is ever written over.
    """
    oldest_first = [log.with_name(f"{log.name}.{number}") for number in range(KEPT_LOGS, 0, -1)]
    for older, newer in itertools.pairwise(oldest_first):
        with contextlib.suppress(FileNotFoundError):
            os.replace(newer, older)
    descriptor = os.open(oldest_first[-1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with log.open("rb+", buffering=0) as source, os.fdopen(descriptor, "wb") as copy:
        while chunk := source.read(COPIED_AT_ONCE):
            copy.write(chunk)
        source.truncate(0)


def use_tools(tools: Path, name: str, now: datetime) -> None:
    """From now on new sessions get these."""
    write_text(tools / CURRENT, name)
    note_used(tools, now)


def note_used(tools: Path, now: datetime) -> None:
    """One that is met for the first time may have been in use until now: whoever made it kept no such list."""
    current = read_current(tools)
    if current is None:
        return
    used = read_used(tools)
    with os.scandir(tools) as entries:
        names = {entry.name for entry in entries if entry.is_dir() and not entry.name.startswith((".", "native-"))}
    known = {name: used.get(name, now) for name in names}
    if current in names and now - known[current] > NOTED_EVERY:
        known[current] = now
    if known != used:
        write_used(tools, known)


def read_current(tools: Path) -> str | None:
    try:
        return (tools / CURRENT).read_text().strip() or None
    except OSError:
        return None


def read_used(tools: Path) -> dict[str, datetime]:
    try:
        found = json.loads((tools / USED).read_text())
        return {str(name): datetime.fromisoformat(at) for name, at in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_used(tools: Path, used: dict[str, datetime]) -> None:
    write_text(tools / USED, json.dumps({name: at.isoformat() for name, at in used.items()}))


def write_text(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    os.replace(beside, path)
