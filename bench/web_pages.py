"""The cluster page of 1,000 GPUs: how long the server takes, how much it sends, how smoothly a browser scrolls it."""
import asyncio
import gc
import gzip
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn

from bench.figures import Figure, Report
from bench.web_lab import Answer, WebLab, a_web_lab
from gpufairy.control.ahead import AGE_S
from gpufairy.control.links import PAGE_COOKIE
from gpufairy.control.loop import Loop
from journeys.chromium import Page, a_page

HOSTS, GPUS = 125, 8
LOOKS, RARE_LOOKS = 60, 20
ON_SCREEN = "gpu001,gpu002,gpu003,gpu004,gpu005,gpu006,gpu007"  # as many as a window shows, and those close to it
P95_MS, FRAMES = 150, 50
SCROLLED_S = 4
# Scrolls by the frame and counts them; what is slow to draw comes late, and is counted less.
SCROLL = """(async () => {
  const frames = [], until = performance.now() + %d;
  while (performance.now() < until) {
    frames.push(await new Promise(requestAnimationFrame));
    scrollBy(0, 40);
    if (scrollY + innerHeight >= document.documentElement.scrollHeight - 1) scrollTo(0, 0);
  }
  return (frames.length - 1) * 1000 / (frames.at(-1) - frames[0]);
})()"""


def measure() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return Report("web_pages", asyncio.run(figures(Path(folder))))


async def figures(folder: Path) -> list[Figure]:
    async with a_web_lab(folder, HOSTS, GPUS) as lab, looking_ahead(lab):
        await lab.ask("/cluster")  # templates are read once
        gc.freeze()  # as the server does when it has started
        whole = await looks(lab, "/cluster", accept_encoding="gzip")
        again = await looks(lab, "/cluster", accept_encoding="gzip", hx_request="true", x_fairy_shown=ON_SCREEN)
        rare = await looks(lab, "/cluster", RARE_LOOKS, AGE_S + 0.05, accept_encoding="gzip")
        lonely = await looks(lab, "/cluster", RARE_LOOKS, forgets=True, accept_encoding="gzip")
        what = f"cluster page of {HOSTS * GPUS:,} GPUs"
        return [
            Figure(f"{what}, every figure new, p95", p95_ms(whole), "ms", P95_MS, higher_is_better=False, note=cpu_words(whole)),
            Figure("the same, none looked for a second, p95", p95_ms(rare), "ms", P95_MS, higher_is_better=False, note=cpu_words(rare)),
            Figure("the same, none looked for a minute, p95", p95_ms(lonely), "ms", P95_MS, higher_is_better=False, note=cpu_words(lonely)),
            Figure("the same, median", median_ms(whole), "ms", higher_is_better=False),
            Figure("the same, over the wire", len(whole[-1].body) / 1000, "kB", 200, higher_is_better=False),
            Figure("an open page looks again, p95", p95_ms(again), "ms", P95_MS, higher_is_better=False),
            Figure("the same, over the wire", len(again[-1].body) / 1000, "kB", higher_is_better=False),
            await scrolled(lab),
        ]


@asynccontextmanager
async def looking_ahead(lab: WebLab) -> AsyncIterator[None]:
    """By the loop that does so in a server."""
    loop = asyncio.create_task(Loop("look ahead", lab.house.ahead.keep, asyncio.Event(), every_s=1).run())
    try:
        yield
    finally:
        loop.cancel()


async def looks(lab: WebLab, path: str, count: int = LOOKS, apart_s: float = 0.0, *, forgets: bool = False, **fields: str) -> list[Answer]:
    """Before each, every reading is new and some session has changed. `forgets`: nobody has looked for so long that no line is kept."""
    found = []
    for seed in range(count):
        await asyncio.sleep(apart_s)
        lab.read_all(seed)
        lab.house.bells.sessions_changed([])
        if forgets:
            lab.house.ahead._seen = None
        answer = await lab.ask(path, **fields)
        assert answer.status == 200, gzip.decompress(answer.body)[:500]
        found.append(answer)
    return found


def p95_ms(answers: list[Answer]) -> float:
    return 1000 * statistics.quantiles([one.took_s for one in answers], n=20)[-1]


def median_ms(answers: list[Answer]) -> float:
    return 1000 * statistics.median(one.took_s for one in answers)


def cpu_words(answers: list[Answer]) -> str:
    return f"{1000 * statistics.quantiles([one.cpu_s for one in answers], n=20)[-1]:.0f} ms of CPU time"


async def scrolled(lab: WebLab) -> Figure:
    """In a real browser, without a window and without a GPU of its own: on a desk it is smoother."""
    async with served(lab) as url, a_page() as page:
        await opened(page, url, lab.cookie, HOSTS)
        told = await page.call("Runtime.evaluate", expression=SCROLL % (SCROLLED_S * 1000), awaitPromise=True, returnByValue=True)
        return Figure("Chromium scrolls it while it is live", told["result"]["value"], "frames/s", FRAMES)


@asynccontextmanager
async def served(lab: WebLab) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(lab.app, port=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        lab.house.bells.leave()
        await serving


async def opened(page: Page, url: str, cookie: str, hosts: int) -> None:
    await page.call("Network.enable")
    await page.call("Network.setCookie", name=PAGE_COOKIE, value=cookie, url=url)
    await page.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    await page.go(f"{url}/cluster")
    await page.until(f"document.readyState === 'complete' && document.querySelectorAll('#hosts > .host').length === {hosts}")
