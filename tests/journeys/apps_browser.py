"""What a browser does with the address that `fairy open` prints."""
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from raw_http import Answer, ask

LIMIT_S = 20
SETTINGS = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n[apps]\nports = '{ports}'\n"  # each file of tests has ports of its own
SCRIPT = Path(__file__).parent / "app_inside.py"


class Tab:
    """Signed in by the address, like a browser that keeps the cookie."""

    def __init__(self, url: str, connect_to: str | None = None) -> None:
        parts = urlsplit(url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._host, self._to = parts.netloc, connect_to or self.origin
        self.first = ask(self._to, "GET", f"{parts.path}?{parts.query}", headers={"Host": self._host})
        self.cookie = self.first.headers.get("set-cookie", "").partition(";")[0]

    def get(self, path: str, **headers: str) -> Answer:
        return ask(self._to, "GET", path, headers={"Host": self._host, "Cookie": self.cookie, **headers})

    def send(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        given = {"Host": self._host, "Cookie": self.cookie, "Origin": self.origin, "Content-Type": "application/json", **headers}
        return ask(self._to, method, path, body=body, headers=given)

    @asynccontextmanager
    async def socket(self, path: str, **headers: str):
        given = {"Cookie": self.cookie, "Origin": self.origin, **headers}
        async with asyncio.timeout(LIMIT_S), aiohttp.ClientSession() as client, client.ws_connect(f"{self.origin}{path}", headers=given) as ours:
            yield ours


async def ends(ours: aiohttp.ClientWebSocketResponse, within_s: float = 5) -> None:
    async with asyncio.timeout(within_s):
        while (await ours.receive()).type not in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR):
            pass
