"""Open pages in a real browser: told of what changes, without a connection while nobody sees them, and back by themselves."""
import pytest
from bench.server import LiveServer
from chromium import a_page

pytestmark = [pytest.mark.slow, pytest.mark.system]

# The streams that the page opens, so that the test can look at them.
NOTED = "window.streams = []; window.EventSource = class extends EventSource { constructor(url) { super(url); streams.push(this); } };"
HIDE = "Object.defineProperty(document, 'hidden', { configurable: true, value: %s }); document.dispatchEvent(new Event('visibilitychange'))"
OPEN, CLOSED = 1, 2


async def test_a_page_that_nobody_sees_holds_no_connection_and_is_up_to_date_when_it_is_seen_again(tmp_path):
    with LiveServer(tmp_path / "fairy", "[node]\ncpus = 64\nmemory = '256GiB'\n") as live:
        client = live.client()
        async with a_page() as page:
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=NOTED)
            await page.go(client.sign_in_link())
            await page.until(f"document.body?.dataset.live !== undefined && window.streams?.at(-1)?.readyState === {OPEN}")
            client.submit({"name": "first", "kind": "interactive", "gpus": "0"})
            await page.until("document.querySelector('#held-first .state')?.textContent === 'Running'")
            await page.see(HIDE % "true")
            await page.until(f"streams.at(-1).readyState === {CLOSED}")
            client.submit({"name": "second", "kind": "interactive", "gpus": "0"})
            await page.see(HIDE % "false")
            await page.until("document.querySelector('#held-second') !== null")
            await page.until(f"streams.length === 2 && streams.at(-1).readyState === {OPEN}")
            live.kill()
            await page.until("document.body.dataset.cut !== undefined")
            live.start()
            await page.until("document.body.dataset.cut === undefined")
            client.submit({"name": "third", "kind": "interactive", "gpus": "0"})
            await page.until("document.querySelector('#held-third') !== null")
