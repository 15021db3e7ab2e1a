"""The first page one sees: how long the server takes for it, what crosses the wire, and when a browser has it ready to be used."""
import asyncio
import contextlib
import http.client
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bench.figures import Figure, Report, percentile
from bench.web_campus import Campus, Size, a_campus
from gpufairy.control.links import PAGE_COOKIE
from journeys.chromium import Page, a_page

LOOKS, OPENED = 60, 12
SERVER_MS, WIRE_KB, USABLE_MS = 100, 200, 1000
LIMIT_S = 30.0
WHOLE = Size()
LESS = {"higher_is_better": False}


def measure(*, looks: int = LOOKS, opened: int = OPENED, size: Size = WHOLE) -> Report:
    with a_campus(size) as campus, campus.on_the_move():
        member = next(one for one in campus.members if one.session is not None)
        pages = {"sign-in": ("/signin", ""), **{
            name: (path, member.cookie)
            for name, path in (("home", "/"), ("launch", "/new"), ("session", f"/sessions/{member.session}"), ("cluster", "/cluster"))
        }}  # fmt: skip
        served = [served_in(campus, name, path, cookie, looks) for name, (path, cookie) in pages.items()]
        loaded = asyncio.run(in_a_browser(campus, pages, opened))
    return Report("web_first", [*served, *(figure for name, loads in loaded.items() for figure in loaded_figures(name, loads))])


def served_in(campus: Campus, name: str, path: str, cookie: str, looks: int) -> Figure:
    took_ms = []
    with contextlib.closing(http.client.HTTPConnection(urlsplit(campus.live.url).netloc, timeout=LIMIT_S)) as connection:
        for _ in range(looks):
            began = time.perf_counter()
            connection.request("GET", path, headers={"Cookie": cookie, "Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            answer.read()
            took_ms.append(1000 * (time.perf_counter() - began))
            assert answer.status == 200, (path, answer.status)
    note = f"median {statistics.median(took_ms):.1f} ms"
    return Figure(f"{name}: asked to answered, p95 of {looks}", percentile(took_ms, 0.95), "ms", goal=SERVER_MS, note=note, **LESS)


@dataclass(frozen=True, slots=True)
class Load:
    usable_ms: float
    wire_bytes: int


def loaded_figures(name: str, loads: list[Load]) -> list[Figure]:
    usable_ms, wire_kb = [load.usable_ms for load in loads], max(load.wire_bytes for load in loads) / 1000
    what = f"{name}: ready to be used in Chromium"
    return [
        Figure(f"{name}: over the wire, nothing kept before", wire_kb, "kB", goal=WIRE_KB, **LESS),
        Figure(f"{what}, median of {len(loads)}", statistics.median(usable_ms), "ms", goal=USABLE_MS, **LESS),
        Figure(f"{what}, worst", max(usable_ms), "ms", goal=USABLE_MS, **LESS),
    ]


async def in_a_browser(campus: Campus, pages: dict[str, tuple[str, str]], opened: int) -> dict[str, list[Load]]:
    async with a_page() as page:
        await page.call("Network.enable")
        await page.call("Page.enable")
        await loaded(page, f"{campus.live.url}/signin", "")  # the browser's own processes are started by its first page
        return {name: [await loaded(page, campus.live.url + path, cookie) for _ in range(opened)] for name, (path, cookie) in pages.items()}


async def loaded(page: Page, url: str, cookie: str) -> Load:
    """From the request for it until its scripts are bound and, where it is live, its stream has spoken. Nothing was kept before."""
    await page.go("about:blank")
    await page.call("Network.clearBrowserCache")
    await page.call("Network.clearBrowserCookies")
    if cookie:
        await page.call("Network.setCookie", name=PAGE_COOKIE, value=cookie.partition("=")[2], url=url)
    async with told_by(page) as events:
        await page.go(url)
        await page.until("document.readyState === 'complete' && typeof htmx === 'object'")
        live = await page.see("document.body.dataset.live !== undefined")
        await page.until("document.getElementById('live') === null || document.getElementById('live')['htmx-internal-data'] !== undefined")
        async with asyncio.timeout(LIMIT_S):
            while live and not any(is_hello(event) for event in events):
                await page.see("1")
                await asyncio.sleep(0.05)
        began_s = min(event["params"]["timestamp"] for event in events if event["method"] == "Network.requestWillBeSent")
        bound_s = max(event["params"]["timestamp"] for event in events if event["method"] == "Page.domContentEventFired")
        hello_s = [event["params"]["timestamp"] for event in events if is_hello(event)]
        return Load(1000 * (max([bound_s, *hello_s]) - began_s), wire_bytes(events))


@contextlib.asynccontextmanager
async def told_by(page: Page) -> AsyncIterator[list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    page.events = events
    try:
        yield events
    finally:
        page.events = None


def is_hello(event: dict[str, Any]) -> bool:
    return event["method"] == "Network.eventSourceMessageReceived" and event["params"]["eventName"] == "hello"


def wire_bytes(events: list[dict[str, Any]]) -> int:
    """Heads and bodies of all answers, as they were packed; of a stream what has come so far."""
    so_far: dict[str, int] = {}
    for event in events:
        told = event["params"]
        match event["method"]:
            case "Network.responseReceived":
                so_far[told["requestId"]] = int(told["response"]["encodedDataLength"])
            case "Network.dataReceived":
                so_far[told["requestId"]] = so_far.get(told["requestId"], 0) + int(told["encodedDataLength"])
            case "Network.loadingFinished":
                so_far[told["requestId"]] = int(told["encodedDataLength"])
    return sum(so_far.values())
