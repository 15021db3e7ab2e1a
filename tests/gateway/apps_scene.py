"""The apps' part of the gateway on a house that answers what a test tells it to, before real HTTP servers of this process."""
import asyncio
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import WSMsgType, web
from bench.ports import free_port

from gpufairy.core.apps import Stall
from gpufairy.core.errors import EngineRefused, NotAllowed
from gpufairy.engines.contract import Door, DoorKind
from gpufairy.gateway.apps import AppsDoor
from gpufairy.gateway.apps_house import OpenApps
from gpufairy.gateway.settings import GatewaySettings

DOOR = Door(DoorKind.PROCESS, "/", "/bin/sh")
LIMIT_S = 20
GO_ON = web.AppKey("go_on", asyncio.Semaphore)


class ToldHouse:
    """What is open, and which tickets are good: as a test says."""

    def __init__(self) -> None:
        self.stalls: list[Stall] = []
        self.gone_tokens: frozenset[str] = frozenset()
        self.tickets: dict[str, tuple[str, str | None]] = {}
        self._revision, self._changed = 0, asyncio.Event()

    def tell(self, *stalls: Stall) -> None:
        self.stalls, self._revision = list(stalls), self._revision + 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def revoke(self, *tokens: str) -> None:
        self.gone_tokens |= set(tokens)
        self.tell(*self.stalls)

    def ticket(self, stall: Stall, token_id: str | None = None) -> str:
        text = f"fairyt_{len(self.tickets)}"
        self.tickets[text] = (stall.id, token_id)
        return text

    async def open_apps(self, after: str) -> OpenApps:
        while after == str(self._revision):
            await self._changed.wait()
        return OpenApps(str(self._revision), tuple(self.stalls), self.gone_tokens)

    async def redeem(self, ticket: str, stall: Stall) -> str | None:
        stall_id, token_id = self.tickets.pop(ticket, ("", None))
        if stall_id != stall.id:
            raise NotAllowed("not good")
        return token_id

    async def door_of(self, stall: Stall) -> Door:
        if stall.app == "gone":
            raise EngineRefused("it has ended")
        return DOOR

    async def close(self) -> None:
        pass


@dataclass
class Scene:
    house: ToldHouse
    door: AppsDoor
    folder: Path
    inside: int
    requests: list[web.Request] = field(default_factory=list)

    def stall(self, name: str = "train", *, inside: int | None = None, host: str | None = None, port: int | None = None) -> Stall:
        number = len(self.house.stalls) + 1
        return Stall(
            f"{name}{os.urandom(4).hex()}", f"id-{name}", 1, "kim", name, "jupyter", number,
            inside or self.inside, port or free_port(), host,
        )  # fmt: skip

    async def opened(self, name: str = "train", **fields) -> "Browser":
        """A browser that is signed in."""
        stall = self.stall(name, **fields)
        self.house.tell(*self.house.stalls, stall)
        return await self.browser(stall)

    async def browser(self, stall: Stall, token_id: str | None = None) -> "Browser":
        browser = Browser(stall)
        answer = await browser.ask("GET", f"/?ticket={self.house.ticket(stall, token_id)}")
        browser.cookie = answer.fields["set-cookie"].partition(";")[0]
        return browser


@dataclass
class Answer:
    status: int
    fields: dict[str, str]
    body: bytes


class Browser:
    """Raw HTTP, so that a test says what no client would send."""

    def __init__(self, stall: Stall) -> None:
        self.stall, self.cookie = stall, ""
        self.host = f"{stall.host or '127.0.0.1'}:{stall.port}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """When the news has come, and it is listened on."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    return await asyncio.open_connection("127.0.0.1", self.stall.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)

    def head(self, method: str, target: str, fields: dict[str, str] | None = None, *, cookie: str | None = None) -> bytes:
        sent = {"Host": self.host, "Cookie": self.cookie if cookie is None else cookie, **(fields or {})}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items() if value)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def raw(self, sent: bytes) -> bytes:
        """All that is answered, to the end of the connection."""
        reader, writer = await self.connect()
        async with asyncio.timeout(LIMIT_S):
            writer.write(sent)
            try:
                return await reader.read()
            finally:
                writer.close()

    async def ask(self, method: str, target: str, fields: dict[str, str] | None = None, body: bytes = b"", **options) -> Answer:
        lengths = {"Content-Length": str(len(body))} if body else {}
        said = await self.raw(self.head(method, target, {"Connection": "close", **lengths, **(fields or {})}, **options) + body)
        head, _, rest = said.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        found = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Answer(int(status.split()[1]), found, rest)


def an_app() -> web.Application:
    """Echoes, streams and counts."""
    async def seen(request: web.Request) -> web.Response:
        return web.json_response([list(pair) for pair in request.headers.items()])

    async def echo(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        async for chunk in request.content.iter_any():
            await answer.write(chunk)
        return answer

    async def count(request: web.Request) -> web.Response:
        total = 0
        async for chunk in request.content.iter_any():
            total += len(chunk)
        return web.json_response({"bytes": total})

    async def events(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for number in range(3):
            await answer.write(f"data: {number}\n\n".encode())
            await request.app[GO_ON].acquire()
        return answer

    async def socket_echo(request: web.Request) -> web.WebSocketResponse:
        ours = web.WebSocketResponse()
        await ours.prepare(request)
        async for message in ours:
            if message.type is WSMsgType.TEXT:
                await ours.send_str(message.data.upper())
        return ours

    async def cookies(_: web.Request) -> web.Response:
        answer = web.Response(text="set")
        answer.headers.add("Set-Cookie", "theirs=1; Domain=lab.example; Path=/")
        answer.headers.add("Set-Cookie", "fairy_page=stolen; Path=/")
        return answer

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=413, text="too much")

    app = web.Application(client_max_size=2**40)
    app[GO_ON] = asyncio.Semaphore(0)
    app.add_routes([
        web.get("/seen", seen), web.get("/", seen), web.route("*", "/echo", echo), web.put("/count", count), web.get("/events", events),
        web.get("/socket", socket_echo), web.get("/cookies", cookies), web.post("/refuse", refuse),
    ])  # fmt: skip
    return app


@asynccontextmanager
async def serving(app: web.Application):
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site._server.sockets[0].getsockname()[1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def a_street(folder: Path, house: ToldHouse | None = None, app: web.Application | None = None):
    """Opened again with the same folder and house it is a restarted gateway."""
    (folder / "ssh").mkdir(exist_ok=True)
    house = house or ToldHouse()
    async with serving(app or an_app()) as inside:
        door = AppsDoor(GatewaySettings(folder), house)
        serving_all = asyncio.create_task(door.serve())
        try:
            yield Scene(house, door, folder, inside)
        finally:
            serving_all.cancel()
            await asyncio.gather(serving_all, return_exceptions=True)
            await door.close()


def fields_seen(answer: Answer) -> dict[str, str]:
    return {name.lower(): value for name, value in json.loads(answer.body)}
