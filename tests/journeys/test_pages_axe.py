"""axe-core over every page, light, dark and in Korean: nothing serious that keeps anybody from reading or using them."""
import json
from pathlib import Path

import pytest
from bench.server import LiveServer
from chromium import a_page

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

AXE = Path(__file__).parents[1] / "data" / "axe.min.js"
PAGES = (
    "/", "/new", "/cluster", "/queue", "/fairness", "/bookings", "/images", "/help", "/account", "/sessions/held", "/sessions/held/terminal",
    "/admin", "/admin/users", "/admin/teams", "/admin/quotas", "/admin/nodes", "/admin/shares", "/admin/mig", "/admin/events", "/admin/settings",
)  # fmt: skip
RUN = """axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations.map(
    one => [one.impact, one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 160))])))"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("axe"), "", ("--simulate", "2xA100-40GB,1xH200")) as server:
        client = server.client()
        client.submit({"name": "held", "gpus": "0.5", "command": ["sleep", "600"], "cpus": 0.5, "memory": "64MiB"})
        client.submit({"name": "waits", "gpus": "2", "command": ["sleep", "600"], "cpus": 0.5, "memory": "64MiB", "gpu_kind": "A100"})
        server.fairy("book", "--gpus", "1", "--from", "in 2h", "--for", "2h", "--title", "class", check=True)
        wait_for_state(client, "held", "RUNNING")
        yield server


@pytest.mark.parametrize("look", ["light", "dark", "korean"])
async def test_no_page_has_a_serious_fault(live, look):
    async with a_page() as page:
        await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if look == "dark" else "light"}])
        await page.go(live.client().sign_in_link())
        await page.until("document.querySelector('form[action=\"/signout\"]') !== null")
        if look == "korean":
            await page.see("document.cookie = 'fairy_language=ko; path=/'")
        faults = {}
        for path in PAGES if look != "dark" else PAGES[:12]:
            await page.go(f"{live.url}{path}")
            await page.until(f"location.pathname === '{path}' && document.readyState === 'complete'")
            await page.see(AXE.read_text() + "; true")
            answer = await page.call("Runtime.evaluate", expression=RUN, awaitPromise=True)
            found = [one for one in json.loads(answer["result"]["value"]) if one[0] in ("serious", "critical")]
            if found:
                faults[path] = found
        assert not faults, json.dumps(faults, indent=1, ensure_ascii=False)
