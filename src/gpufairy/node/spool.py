"""Spool: samples that could not be sent, kept on disk until they can be. Bounded: the oldest go first, and it is said how many."""
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

log = logging.getLogger("gpufairy.agent")

SEGMENT_BYTES = 512 * 1024  # one file: small enough to be given up as a whole
MOST_BYTES = 64 * 2**20  # about a day of an 8-GPU host
LONGEST_LINE = 4 * 2**20
Plain = dict[str, Any]


class Spool:
    """One agent's, in a folder of its own. What is taken is removed only when it was delivered."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self.dropped = 0  # samples given up for want of room, since the start
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._segments = sorted(path for path in folder.glob("*.jsonl") if _is_segment(path))
        self._given = 0  # lines of the oldest segment that were delivered
        self._writing: Path | None = None  # never a segment of an earlier run: its last line may be cut

    def __bool__(self) -> bool:
        return bool(self._segments)

    def keep(self, samples: Sequence[Plain]) -> None:
        """A full disk loses samples, never the agent."""
        text = "".join(json.dumps(sample, separators=(",", ":")) + "\n" for sample in samples).encode()
        try:
            self._make_room(len(text))
            descriptor = os.open(self._newest(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, text)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.dropped += len(samples)
            log.warning("%d samples are lost: they could not be sent, nor kept in %s: %s", len(samples), self._folder, error.strerror)

    def oldest(self, most: int) -> list[Plain]:
        """Without removing them: see `delivered`."""
        while self._segments:
            left = _samples(self._segments[0])[self._given :]
            if left:
                return left[:most]
            self._drop_oldest()
        return []

    def delivered(self, most: int) -> None:
        """What `oldest(most)` gave is with the server."""
        if not self._segments:
            return
        self._given += most
        if self._given >= len(_samples(self._segments[0])):
            self._drop_oldest()

    def _newest(self) -> Path:
        if self._writing is None or self._writing not in self._segments or _size(self._writing) >= SEGMENT_BYTES:
            number = int(self._segments[-1].stem) + 1 if self._segments else 1
            self._writing = self._folder / f"{number:012d}.jsonl"
            self._segments.append(self._writing)
        return self._writing

    def _make_room(self, more: int) -> None:
        while len(self._segments) > 1 and sum(map(_size, self._segments)) + more > self._most_bytes:
            lost = len(_samples(self._segments[0])) - self._given
            self.dropped += lost
            log.warning("%d samples are given up: more than %d MiB wait to be sent", lost, self._most_bytes >> 20)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._segments.pop(0).unlink(missing_ok=True)
        self._given = 0


def _is_segment(path: Path) -> bool:
    return path.stem.isdecimal() and path.is_file() and not path.is_symlink()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _samples(path: Path) -> list[Plain]:
    """Those that can be read: a crash or a full disk may have cut a line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    return [sample for line in lines if (sample := _read(line)) is not None]


def _read(line: bytes) -> Plain | None:
    try:
        sample = json.loads(line) if len(line) <= LONGEST_LINE else None
    except ValueError:
        return None
    return sample if isinstance(sample, dict) else None
