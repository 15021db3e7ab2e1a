"""A way to a real API server that does what a test says with some of the calls: refuses them, loses their answers, ends their watches."""
import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from kube.cluster import Cluster
from kube.fake_api import Says, write_config


@dataclass
class Between:
    cluster: Cluster
    url: str = ""
    lose: tuple[str, str] | None = None  # method and end of the path of calls that are done, and whose answers are lost
    lost: int = 0
    says: dict[tuple[str, str], list[Says]] = field(default_factory=dict)  # instead of the server, one answer a call
    watch_says: bytes = b""  # the next that the server would say on a watch is this instead; then the watch ends
    asked: list[tuple[str, str]] = field(default_factory=list)
    ended_watches: int = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        for (method, end), answers in self.says.items():
            if request.method == method and request.path.endswith(end) and answers:
                said = answers.pop(0)
                return web.Response(status=said.status, body=json.dumps(said.body).encode(), headers={"Content-Type": "application/json", **said.headers})
        async with self._session.request(request.method, f"{self.cluster.url}{request.path_qs}", data=await request.read(), headers=self._headers(request)) as told:
            if self.lose is not None and request.method == self.lose[0] and request.path.endswith(self.lose[1]):
                await told.read()
                self.lost += 1
                return await cut(request)
            return await self._passed_on(request, told)

    def _headers(self, request: web.BaseRequest) -> dict[str, str]:
        kept = {name: value for name, value in request.headers.items() if name.lower() in ("content-type", "accept")}
        return {**kept, "Authorization": f"Bearer {self.cluster.token}"}

    async def _passed_on(self, request: web.BaseRequest, told: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=told.status, headers={"Content-Type": told.headers.get("Content-Type", "application/json")})
        await response.prepare(request)
        is_watch = request.query.get("watch") == "1"
        async for chunk in told.content.iter_any():
            if is_watch and self.watch_says:
                await response.write(self.watch_says)
                self.ended_watches += 1
                break
            await response.write(chunk)
        return response

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Between"]:
        trusted = ssl.create_default_context(cafile=str(self.cluster.authority))
        runner = web.ServerRunner(web.Server(self.answer), shutdown_timeout=0.1)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted, limit=0), timeout=aiohttp.ClientTimeout(total=None)) as self._session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                await runner.cleanup()

    def kubeconfig(self, folder: Path) -> Path:
        return write_config(folder, self.url)


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    await asyncio.sleep(3600)
    raise AssertionError


def too_many(times: int) -> list[Says]:
    """As an API server says it that has too much to do."""
    body: dict[str, Any] = {"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "message": "Too many requests, please try again later.", "code": 429}
    return [Says(429, body, {"Retry-After": "0"}) for _ in range(times)]


GONE = json.dumps({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old resource version: 1 (2)", "code": 410}}).encode() + b"\n"
