"""Hundreds of open pages in one process, for `web_crowd`: each does on the wire what page.js, htmx, charts.js and log.js do in a browser.

Run as `python -m bench.web_tabs URL FILE`: a line when all are open, then one of figures for each line that is read.
"""
import asyncio
import contextlib
import gzip
import html
import json
import re
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

OPEN = "all open"
AT_ONCE = 20  # pages that are opened at the same time
CHARTS_EACH_S = 4.0  # as charts.js
LOG_AGAIN_S = 2.0  # as log.js
LIMIT_S = 60.0
LIVE = re.compile(r'data-live="([^"]*)"')
ON_SCREEN = ",".join(("main", *(f"gpu{number:03}" for number in range(6))))  # hosts of the cluster's page, as cluster.js tells them
CUT = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


@dataclass(slots=True)
class Tally:
    """Since the last time it was asked for."""

    looks: int = 0
    took_s: list[float] = field(default_factory=list)
    received_bytes: int = 0
    events: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    charts: int = 0
    cut: int = 0  # streams that ended
    healed_s: list[float] = field(default_factory=list)  # from the end of a stream until what is shown is fresh again


class Line:
    """One kept connection of a browser."""

    def __init__(self, url: str, cookie: str) -> None:
        at = urlsplit(url)
        self._host, self._port, self._cookie = at.hostname or "127.0.0.1", at.port or 80, cookie
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def get(self, path: str, **fields: str) -> tuple[int, dict[str, str], bytes]:
        """Sent once more where the server has closed an idle connection meanwhile, as browsers do."""
        kept = self._reader is not None
        try:
            status, headers = await self.ask(path, **fields)
        except CUT:
            self.close()
            if not kept:
                raise
            status, headers = await self.ask(path, **fields)
        assert self._reader is not None
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            self.close()
        return status, headers, body

    async def ask(self, path: str, **fields: str) -> tuple[int, dict[str, str]]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        sent = {"Host": f"{self._host}:{self._port}", "Cookie": self._cookie, "Accept-Encoding": "gzip, deflate, br", **fields}
        rows = [f"GET {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in sent.items()), "", ""]
        self._writer.write("\r\n".join(rows).encode())
        first, *others = (await self._reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in others)}
        return int(first.split()[1]), headers

    async def chunks(self) -> AsyncIterator[bytes]:
        assert self._reader is not None
        while size := int(await self._reader.readline() or b"0", 16):
            yield (await self._reader.readexactly(size + 2))[:-2]

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


class Tab:
    def __init__(self, url: str, path: str, cookie: str, tally: Tally, chance: Random) -> None:
        self._path, self._tally, self._chance = path, tally, chance
        self._page, self._live, self._charts, self._log = (Line(url, cookie) for _ in range(4))
        self._wanted, self._charted_s, self._lost_s = asyncio.Event(), 0.0, 0.0
        self._live_query = ""

    async def open(self) -> None:
        status, _, body = await self._page.get(self._path)
        assert status == 200, (self._path, status, body[:200])
        self._live_query = html.unescape(LIVE.search(gzip.decompress(body).decode())[1])  # type: ignore[index]

    async def stay(self) -> None:
        works = [self._follow(), self._look()]
        works += [self._follow_log(), self._chart()] if self._path.startswith("/sessions/") else []
        await asyncio.gather(*works)

    async def _follow(self) -> None:
        """The stream of changes, as EventSource follows it."""
        retry_s = 2.0
        while True:
            with contextlib.suppress(*CUT):
                status, _ = await self._live.ask(f"/live?{self._live_query}", Accept="text/event-stream")
                assert status == 200, status
                async for chunk in self._live.chunks():
                    retry_s = self._hear(chunk.decode()) or retry_s
            self._live.close()
            self._tally.cut += 1
            self._lost_s = self._lost_s or time.monotonic()
            await asyncio.sleep(retry_s)

    def _hear(self, told: str) -> float | None:
        rows = dict(row.split(": ", 1) for row in told.splitlines() if ": " in row)
        event = rows.get("event", "")
        self._tally.events[event] = self._tally.events.get(event, 0) + 1
        if event != "hello" or self._lost_s:
            self._wanted.set()
        return int(rows["retry"]) / 1000 if "retry" in rows else None

    async def _look(self) -> None:
        """One at a time, and once more for all that came meanwhile, as htmx does."""
        fields = {"HX-Request": "true", **({"X-Fairy-Shown": ON_SCREEN} if self._path == "/cluster" else {})}
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began_s = time.monotonic()
            with contextlib.suppress(*CUT):
                status, _, body = await asyncio.wait_for(self._page.get(self._path, **fields), LIMIT_S)
                self._note(status, len(body), time.monotonic() - began_s)

    def _note(self, status: int, size: int, took_s: float) -> None:
        tally = self._tally
        tally.looks += 1
        tally.took_s.append(took_s)
        tally.received_bytes += size
        tally.statuses[str(status)] = tally.statuses.get(str(status), 0) + 1
        if self._lost_s:
            tally.healed_s.append(time.monotonic() - self._lost_s)
            self._lost_s = 0.0

    async def _chart(self) -> None:
        name, newest = self._path, ""
        while True:
            await asyncio.sleep(CHARTS_EACH_S + self._chance.random())
            with contextlib.suppress(*CUT):
                _, _, body = await self._charts.get(f"{name}/readings?span=hour{newest}")
                newest = f"&from={time.time() - 15:.1f}"
                self._tally.charts += 1
                self._tally.received_bytes += len(body)

    async def _follow_log(self) -> None:
        while True:
            with contextlib.suppress(*CUT):
                await self._log.ask(f"{self._path}/log?from=0")
                async for _ in self._log.chunks():
                    pass
            self._log.close()
            await asyncio.sleep(LOG_AGAIN_S)


async def crowd(url: str, wanted: list[dict[str, str]]) -> None:
    tally, chance, room = Tally(), Random(1), asyncio.Semaphore(AT_ONCE)
    tabs = [Tab(url, one["path"], one["cookie"], tally, chance) for one in wanted]

    async def come(tab: Tab) -> None:
        async with room:
            await tab.open()

    await asyncio.gather(*map(come, tabs))
    staying = [asyncio.create_task(tab.stay()) for tab in tabs]
    print(OPEN, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        for task in staying:
            if task.done():
                task.result()
        print(json.dumps(asdict(tally)), flush=True)
        fresh = Tally()
        for name in Tally.__slots__:
            setattr(tally, name, getattr(fresh, name))
    for task in staying:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(crowd(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
