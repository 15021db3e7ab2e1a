"""A real browser without a window, told what to do over its own debugging socket."""
import asyncio
import json
import shutil
import tempfile
from base64 import b64decode
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from album import place_of

LIMIT_S = 60
AXE = Path(__file__).parents[1] / "data" / "axe.min.js"
RUN_AXE = """axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations.map(
    one => [one.impact, one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 160))])))"""
DESK, PHONE = 1280, 360  # pixels across
TALLEST = 6000  # of a picture, in pixels
SIGNED_IN = "document.querySelector('form[action=\"/signout\"]') !== null && document.readyState === 'complete'"


# The first is the same browser without its windows, menus and calls home, and starts with a third of the work.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def program() -> str:
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium-headless-shell")
    return found


class Page:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, count(1)
        self.complaints: list[str] = []  # of the console: what a policy forbade among them
        self.dialogs: list[str] = []  # that a script opened: `alert` of somebody else's text among them
        self.events: list[dict[str, Any]] | None = None  # all that the browser tells by itself, where somebody wants to know

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            said = await self._socket.receive_json()
            if self.events is not None and "method" in said:
                self.events.append(said)
            if said.get("method") == "Log.entryAdded":
                self.complaints.append(said["params"]["entry"]["text"])
            if said.get("method") == "Page.javascriptDialogOpening":
                self.dialogs.append(said["params"]["message"])
                await self._socket.send_json({"id": next(self._numbers), "method": "Page.handleJavaScriptDialog", "params": {"accept": False}})
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

    async def key(self, letter: str, *, ctrl: bool = False, shift: bool = False) -> None:
        held = {"modifiers": 2 * ctrl + 8 * shift, "key": letter, "code": f"Key{letter.upper()}", "windowsVirtualKeyCode": ord(letter.upper())}
        for kind in ("rawKeyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, **held)

    async def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    async def fresh(self) -> "Page":
        """As a browser that was never here."""
        await self.go("about:blank")
        await self.call("Network.clearBrowserCookies")
        await self.wide(DESK)
        await self.dark(False)
        self.complaints.clear()
        self.dialogs.clear()
        return self

    async def sign_in(self, link: str) -> None:
        await self.go(link)
        await self.until(SIGNED_IN)

    async def open(self, url: str) -> None:
        """Until it is there, and its scripts have run."""
        await self.go(url)
        await self.until(f"location.href === {url!r} && document.readyState === 'complete' && document.querySelector('h1') !== null")

    async def shows(self, words: str) -> None:
        await self.until(f"document.body?.innerText.replaceAll('\\u00a0', ' ').includes({words!r})")

    async def press(self, selector: str) -> None:
        """Whatever is asked before it is done is answered with yes."""
        await self.until(f"document.querySelector({selector!r}) !== null")
        await self.see(f"window.confirm = () => true; document.querySelector({selector!r}).click()")

    async def copy(self, text: str, origin: str) -> None:
        """Onto the clipboard, which the page may read and write from now on."""
        await self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await self.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"], origin=origin)
        await self.told(f"navigator.clipboard.writeText({text!r}).then(() => '')")

    async def copied(self) -> str:
        return await self.told("navigator.clipboard.readText()")

    async def told(self, promise: str) -> Any:
        """What a promise of the page is kept with."""
        answer = await self.call("Runtime.evaluate", expression=promise, awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def wide(self, pixels: int, height: int = 800) -> None:
        await self.call("Emulation.setDeviceMetricsOverride", width=pixels, height=height, deviceScaleFactor=1, mobile=pixels <= PHONE)

    async def dark(self, is_dark: bool = True) -> None:
        """As the system has it."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    async def korean(self, is_korean: bool = True) -> None:
        await self.see(f"document.cookie = 'fairy_language={'ko' if is_korean else 'en'}; path=/'")

    @property
    def forbidden(self) -> list[str]:
        """What a policy of ours kept the page from doing."""
        return [text for text in self.complaints if "Content Security Policy" in text]

    async def faults(self) -> list[object]:
        """What keeps somebody from reading or using the page, by axe-core: serious things alone."""
        await self.see(AXE.read_text() + "; true")
        return [one for one in json.loads(await self.told(RUN_AXE)) if one[0] in ("serious", "critical")]

    async def keep(self, name: str) -> None:
        """A picture of the whole page, for the album."""
        await self.until("document.readyState === 'complete'")
        size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(TALLEST, size["height"]), "scale": 1}
        await self.shot(place_of(name), clip=clip, captureBeyondViewport=True)

    async def shot(self, path: Path, **how: Any) -> None:
        """What is seen now, as a picture."""
        taken = await self.call("Page.captureScreenshot", format="png", **how)
        await asyncio.to_thread(path.write_bytes, b64decode(taken["data"]))


@asynccontextmanager
async def a_page():
    folder = Path(tempfile.mkdtemp(prefix="fairy-chromium-"))
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(program(), *OPTIONS, f"--user-data-dir={folder}", "about:blank", stdout=silent, stderr=silent)
    try:
        async with asyncio.timeout(LIMIT_S):
            while not (noted := folder / "DevToolsActivePort").exists() or "\n" not in noted.read_text():  # noqa: ASYNC110 - written when it listens
                await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as client:
            found = await (await client.get(f"http://127.0.0.1:{noted.read_text().split()[0]}/json/list")).json()
            async with client.ws_connect(next(tab["webSocketDebuggerUrl"] for tab in found if tab["type"] == "page"), max_msg_size=0) as socket:
                page = Page(socket)
                for part in ("Log", "Page"):
                    await page.call(f"{part}.enable")
                yield page
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)
