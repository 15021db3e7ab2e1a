"""Spool: samples that could not be sent, kept on disk until they can be. Bounded: the oldest go first, and it is said how many."""
import contextlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpufairy.core.errors import BadInput

log = logging.getLogger("gpufairy.agent")

SEGMENT_BYTES = 512 * 1024  # one file: small enough to be given up as a whole
MOST_BYTES = 64 * 2**20  # about a day of an 8-GPU host
LONGEST_LINE = 4 * 2**20
MARK_FILE = "delivered"  # which segment is the oldest, and how many of its bytes are with the server
Plain = dict[str, Any]


class Spool:
    """One agent's, in a folder of its own. What is taken is removed only when it was delivered."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self.dropped = 0  # samples given up for want of room, since the start
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._segments = sorted(path for path in folder.iterdir() if _is_segment(path))
        except OSError as error:
            raise BadInput(f"the spool {folder} cannot be used: {error.strerror}", "Give a folder of its own: --data DIR.") from None
        self._done_bytes = self._marked() if self._segments else 0  # of the oldest segment
        self._ends: list[int] = []  # of what `oldest` gave, in bytes of that segment
        self._writing: Path | None = None  # never a segment of an earlier run, or of a write that failed: its last line may be cut

    def __bool__(self) -> bool:
        return bool(self._segments)

    def keep(self, samples: Sequence[Plain]) -> None:
        """A full disk loses samples, never the agent."""
        text = "".join(json.dumps(sample, separators=(",", ":")) + "\n" for sample in samples).encode()
        written = 0
        try:
            self._make_room(len(text))
            descriptor = os.open(self._newest(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                while written < len(text):
                    written += os.write(descriptor, text[written:])
            finally:
                os.close(descriptor)
        except OSError as error:
            self._writing = None
            lost = len(samples) - text[:written].count(b"\n")
            self.dropped += lost
            log.warning("%d samples are lost: they could not be sent, nor kept in %s: %s", lost, self._folder, error.strerror)

    def oldest(self, most: int) -> list[Plain]:
        """Without removing them: see `delivered`."""
        while self._segments:
            found = [pair for pair, _ in zip(_samples(self._segments[0], self._done_bytes), range(most), strict=False)]
            if found or not most:
                self._ends = [end for _, end in found]
                return [sample for sample, _ in found]
            self._drop_oldest()
        return []

    def delivered(self, count: int) -> None:
        """So many of what `oldest` gave are with the server."""
        if not self._segments or not self._ends[:count]:
            return
        self._done_bytes, self._ends = self._ends[:count][-1], self._ends[count:]
        if next(_samples(self._segments[0], self._done_bytes), None) is None:
            self._drop_oldest()
        else:
            self._mark()

    def _newest(self) -> Path:
        if self._writing is None or self._writing not in self._segments or _size(self._writing) >= SEGMENT_BYTES:
            number = int(self._segments[-1].stem) + 1 if self._segments else 1
            self._writing = self._folder / f"{number:012d}.jsonl"
            self._segments.append(self._writing)
        return self._writing

    def _make_room(self, more: int) -> None:
        while len(self._segments) > 1 and sum(map(_size, self._segments)) + more > self._most_bytes:
            lost = sum(1 for _ in _samples(self._segments[0], self._done_bytes))
            self.dropped += lost
            log.warning("%d samples are given up: more than %d MiB wait to be sent", lost, self._most_bytes >> 20)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        gone, self._done_bytes, self._ends = self._segments.pop(0), 0, []
        for file in (self._folder / MARK_FILE, gone):  # in this order: a mark without its segment would be taken for one of the next
            with contextlib.suppress(OSError):  # then it is sent again after the next start, and known there for what it is
                file.unlink(missing_ok=True)

    def _mark(self) -> None:
        """After a kill no more than what was on its way is sent again. A mark that cannot be written costs that, and nothing else."""
        new = self._folder / f"{MARK_FILE}.new"
        with contextlib.suppress(OSError):
            new.write_text(f"{self._segments[0].stem} {self._done_bytes}\n")
            new.replace(self._folder / MARK_FILE)

    def _marked(self) -> int:
        try:
            segment, _, done = (self._folder / MARK_FILE).read_text(errors="replace")[:100].partition(" ")
        except OSError:
            return 0
        return int(done) if segment == self._segments[0].stem and done.strip().isdecimal() else 0


def _is_segment(path: Path) -> bool:
    return path.suffix == ".jsonl" and path.stem.isdecimal() and path.is_file() and not path.is_symlink()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _samples(path: Path, done_bytes: int) -> Iterator[tuple[Plain, int]]:
    """Those behind that place that can be read, each with where it ends: a crash or a full disk may have cut a line."""
    try:
        with path.open("rb") as file:
            end = file.seek(done_bytes)
            for line in iter(lambda: file.readline(LONGEST_LINE), b""):
                end += len(line)
                if (sample := _read(line)) is not None:
                    yield sample, end
    except OSError:
        return


def _read(line: bytes) -> Plain | None:
    try:
        sample = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return sample if isinstance(sample, dict) else None
