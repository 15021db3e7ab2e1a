"""A server that answers as told, one answer a request: for what a real API server cannot be made to say."""
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi


@dataclass(frozen=True)
class Says:
    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    lines: tuple[Any, ...] | None = None  # of a watch, instead of a body
    stays: bool = False  # open, after the last line
    cuts: bool = False  # hangs up in the middle


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


def no(status: int, reason: str = "", message: str = "no", **more: Any) -> Says:
    headers = more.pop("headers", {})
    return Says(status, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status, **more}, headers)


class FakeApi:
    """The last answer is given for ever."""

    def __init__(self, *answers: Says) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        text = await request.read()
        self.asked.append(Asked(request.method, request.path, dict(request.query), dict(request.headers), json.loads(text) if text else None))
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if said.cuts:
            assert request.transport is not None
            request.transport.abort()
            await asyncio.sleep(3600)
        if said.lines is None:
            body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            return web.Response(status=said.status, body=body, headers={"Content-Type": "application/json", **said.headers})
        response = web.StreamResponse(status=said.status, headers=said.headers)
        await response.prepare(request)
        for line in said.lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() + b"\n")
        if said.stays:
            await asyncio.sleep(3600)
        return response


@asynccontextmanager
async def fake_api(*answers: Says, port: int = 0) -> AsyncIterator[FakeApi]:
    fake = FakeApi(*answers)
    runner = web.ServerRunner(web.Server(fake.answer), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


def write_config(folder: Path, server: str, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    told = {
        "current-context": "one", "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": server, **cluster}}], "users": [{"name": "one", "user": {"token": "t1"} if user is None else user}],
    }  # fmt: skip
    path = folder / "config.json"
    path.write_text(json.dumps(told))
    return path


@asynccontextmanager
async def asking(fake: FakeApi, folder: Path, user: dict[str, Any] | None = None) -> AsyncIterator[KubeApi]:
    async with KubeApi(load_access(write_config(folder, fake.url, user), None, {"PATH": "/usr/bin:/bin"})) as api:
        yield api
