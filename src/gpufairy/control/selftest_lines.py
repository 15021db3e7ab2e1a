"""What a command in a session prints, as records: one JSON object a line, read as it comes, with a bound on all of it."""
import asyncio
import json
import os
from types import TracebackType
from typing import Any, Self

from gpufairy.core.errors import Conflict

MOST_SAID = 2**20  # bytes
CHUNK = 2**16


class Records:
    """Reads the descriptor while it is entered. Raises Conflict for what is no record."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._ready = descriptor, asyncio.Event()
        self._rest, self._total = b"", 0
        self._lines: list[bytes] = []

    def __enter__(self) -> Self:
        os.set_blocking(self._descriptor, False)
        asyncio.get_running_loop().add_reader(self._descriptor, self._ready.set)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)

    async def next(self) -> dict[str, Any] | None:
        """None: there are no more."""
        while not self._lines:
            chunk = await self._chunk()
            self._total += len(chunk)
            if self._total > MOST_SAID:
                raise Conflict(f"the probe said more than {MOST_SAID} bytes")
            if not chunk:
                return None
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines = [line for line in lines if line]
        return record(self._lines.pop(0))

    async def _chunk(self) -> bytes:
        """Empty: the end."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # the other end has gone
                return b""


def record(line: bytes) -> dict[str, Any]:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise Conflict(f"the probe said {line[:80]!r}, which is no record")
    return read
