"""A real browser without a window, told what to do over its own debugging socket."""
import asyncio
import os
import shutil
import tempfile
from base64 import b64decode
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

LIMIT_S = 60


def program() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        missing = "no Chromium on this machine: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


class Page:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, count(1)
        self.complaints: list[str] = []  # of the console: what a policy forbade among them

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            said = await self._socket.receive_json()
            if said.get("method") == "Log.entryAdded":
                self.complaints.append(said["params"]["entry"]["text"])
            if said.get("id") == number:
                assert "error" not in said, said
                return said["result"]

    async def go(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def see(self, expression: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=expression)).get("result", {}).get("value")

    async def until(self, expression: str) -> None:
        """Until it is true in the page."""
        async with asyncio.timeout(LIMIT_S):
            while not await self.see(expression):  # noqa: ASYNC110 - the page rings no bell
                await asyncio.sleep(0.1)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def enter(self) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")

    async def shot(self, path: Path) -> None:
        """What is seen now, as a picture."""
        taken = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, b64decode(taken["data"]))


@asynccontextmanager
async def a_page():
    folder = Path(tempfile.mkdtemp(prefix="fairy-chromium-"))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(program(), *options, "about:blank", stdout=silent, stderr=silent)
    try:
        async with asyncio.timeout(LIMIT_S):
            while not (noted := folder / "DevToolsActivePort").exists() or "\n" not in noted.read_text():  # noqa: ASYNC110 - written when it listens
                await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as client:
            found = await (await client.get(f"http://127.0.0.1:{noted.read_text().split()[0]}/json/list")).json()
            async with client.ws_connect(next(tab["webSocketDebuggerUrl"] for tab in found if tab["type"] == "page"), max_msg_size=0) as socket:
                page = Page(socket)
                await page.call("Log.enable")
                yield page
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)
