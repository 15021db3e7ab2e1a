"""A browser that is signed in as ann, on the whole application without a socket in between."""
import asyncio
import html
import json
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from house_scene import Scene

from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.api.problems import status_and_title
from gpufairy.control.links import SignInLinks
from gpufairy.control.registry import PAGE_SCOPE
from gpufairy.web import routes as pages
from gpufairy.web.context import PageContext

URL = "http://server:8420"


@dataclass(frozen=True)
class Page:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """As it is read: figures with plain spaces, and no entities."""
        return html.unescape(self.body.decode()).replace("\N{NO-BREAK SPACE}", " ")

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.text))

    def json(self) -> dict:
        return json.loads(self.body)


class Browser:
    def __init__(self, scene: Scene, cookie: str) -> None:
        links = SignInLinks(scene.house.clock)
        self._app, self._cookie = make_app(Context(scene.house, links, URL)), cookie
        self._app.include_router(pages.routes(PageContext(scene.house, links, URL, "fairy", status_and_title)))

    async def get(self, path: str, **headers: str) -> Page:
        return await self._ask("GET", path, b"", headers)

    async def live(self, path: str) -> Page:
        """What a page that is open asks for again."""
        return await self.get(path, **{"hx-request": "true"})

    async def post(self, path: str, origin: str = URL, **fields: str) -> Page:
        return await self._ask("POST", path, urlencode(fields).encode(), {"origin": origin})

    async def api(self, method: str, path: str, token: str, body: object = None) -> Page:
        """As a program asks, with a token of its own."""
        return await self._ask(method, f"/api/v1{path}", b"" if body is None else json.dumps(body).encode(), {"authorization": f"Bearer {token}"})

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Page:
        said: list[dict] = []
        sent = {"host": "server:8420", "cookie": f"fairy_page={self._cookie}", "content-length": str(len(body)), **headers}
        bare, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": method, "path": bare,
            "raw_path": bare.encode(), "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 1), "server": ("server", 8420),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()], "state": {},
        }  # fmt: skip
        asked = [{"type": "http.request", "body": body}]

        async def receive() -> dict:
            if not asked:
                await asyncio.Event().wait()  # the browser stays
            return asked.pop()

        async def send(message: dict) -> None:
            said.append(message)

        await self._app(scope, receive, send)
        given = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        return Page(said[0]["status"], given, b"".join(part.get("body", b"") for part in said[1:]))


async def a_browser(scene: Scene) -> Browser:
    await scene.house.registry.ensure_user("ann")
    _, cookie = await scene.house.registry.create_token("ann", "browser", PAGE_SCOPE, None)
    return Browser(scene, cookie)
