"""The web terminal as a browser-side client uses it."""
import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp

LIMIT_S = 20


class WebTerminal:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket, self.shown, self.exit = socket, "", None

    async def type(self, text: str) -> None:
        await self.socket.send_bytes(text.encode())

    async def resize(self, columns: int, rows: int) -> None:
        await self.socket.send_str(json.dumps({"resize": [columns, rows]}))

    async def until(self, text: str, limit_s: float = LIMIT_S) -> str:
        """Everything shown up to it; the rest is kept."""
        async with asyncio.timeout(limit_s):
            while text not in self.shown:
                assert await self._more(), f"waited for {text!r}, saw {self.shown!r} and then the end"
        seen, _, self.shown = self.shown.partition(text)
        return seen

    async def ended(self, limit_s: float = LIMIT_S) -> int | None:
        """The code it was closed with; the shell's own is in `exit`."""
        async with asyncio.timeout(limit_s):
            while await self._more():
                pass
        return self.socket.close_code

    async def _more(self) -> bool:
        message = await self.socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            self.shown += message.data.decode(errors="replace")
        elif message.type is aiohttp.WSMsgType.TEXT:
            self.exit = json.loads(message.data)["exit"]
        return message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT)


@asynccontextmanager
async def a_terminal(server, name: str, query: str = "", **headers: str):
    """Signed in as whoever started the server, unless other fields are given."""
    given = headers or {"Authorization": f"Bearer {server.token}"}
    url = f"{server.url}/api/v1/sessions/{name}/terminal{query}"
    async with aiohttp.ClientSession() as client, client.ws_connect(url, headers=given) as socket:
        yield WebTerminal(socket)
