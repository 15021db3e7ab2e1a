"""Strangers by the thousand, in a process of their own: each connects, says a beginning, drips on or is silent, until it is cut.

Run as `python -m bench.stranger_crowd PORT KINDS`, KINDS as JSON: a line when all are there, then one of how long each was let stay.
"""
import asyncio
import contextlib
import json
import sys
import time
from dataclasses import dataclass

from gpufairy.engines.open_files import raise_open_files

ALL_THERE = "all there"
AT_ONCE = 400  # that connect at the same time: more would only wait in the kernel
DRIP_S = 1.0
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    count: int
    begins: str = ""
    drips: str = ""  # sent once a second


class Crowd:
    def __init__(self, port: int, kinds: list[Kind]) -> None:
        self._port, self._kinds = port, kinds
        self._room, self._there = asyncio.Semaphore(AT_ONCE), 0
        self.stayed_s: dict[str, list[float]] = {kind.name: [] for kind in kinds}

    async def come(self) -> None:
        total = sum(kind.count for kind in self._kinds)
        tasks = [asyncio.create_task(self._stranger(kind)) for kind in self._kinds for _ in range(kind.count)]
        while self._there < total:
            await asyncio.sleep(0.05)
        print(ALL_THERE, flush=True)
        await asyncio.wait(tasks, timeout=LIMIT_S)
        for task in tasks:
            task.cancel()
        print(json.dumps({name: [min(times, default=-1), max(times, default=-1), len(times)] for name, times in self.stayed_s.items()}))

    async def _stranger(self, kind: Kind) -> None:
        async with self._room:
            began = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(kind.begins.encode())
            self._there += 1
        drip = asyncio.create_task(self._drip(writer, kind.drips)) if kind.drips else None
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass
        self.stayed_s[kind.name].append(time.monotonic() - began)
        if drip is not None:
            drip.cancel()
        writer.close()

    async def _drip(self, writer: asyncio.StreamWriter, text: str) -> None:
        while True:
            await asyncio.sleep(DRIP_S)
            writer.write(text.encode())


if __name__ == "__main__":
    raise_open_files()
    wanted = [Kind(**kind) for kind in json.loads(sys.argv[2])]

    async def main() -> None:
        await Crowd(int(sys.argv[1]), wanted).come()

    asyncio.run(main())
