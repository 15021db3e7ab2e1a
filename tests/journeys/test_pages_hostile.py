"""What strangers write, in a real browser: markup, scripts and control characters are shown as they are, on every page that shows them."""
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from bench.server import LiveServer

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n[bookings]\nusers = true\n"
IMAGE = "<img src=x onerror=alert(1)>"
BREAKS_OUT = "\"'></pre></textarea></title></script><script>alert(2)</script><svg/onload=alert(3)>{{7*7}}"
CONTROLS = "\x1b]0;taken\x07\x1b[31mred\x1b[0m \u202eturned \x00\x08"
NASTY = f"{IMAGE}{BREAKS_OUT}"
PRINTS = f"printf '%s\\n' '{IMAGE}'; printf '\\033]0;taken\\007\\033[31mred\\033[0m \\342\\200\\256turned\\n'; sleep 600"
# Nothing of ours is an image, has a handler or is a script of the page itself.
INJECTED = "document.querySelectorAll('main img, script:not([src]), [onerror], [onload], iframe, object, base').length"
PAGES = ("/", "/sessions/hostile", "/sessions/ended", "/cluster", "/queue", "/fairness", "/bookings", "/account", "/admin/nodes", "/admin/events", "/admin/audit")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS, ("--simulate", "2xA100-40GB")) as server:
        client = server.client()
        client.submit({"name": "hostile", "gpus": "1", "command": ["sh", "-c", PRINTS, NASTY], "env": {"X": NASTY}, "cpus": 1, "memory": "1GiB"})
        client.submit({"name": "ended", "gpus": "0", "command": ["sh", "-c", f"exit 3 # {NASTY}"]})
        client.book({"gpus": 1, "title": IMAGE, "from": (datetime.now(UTC) + timedelta(hours=1)).isoformat(), "time": "2h"})
        wait_for_state(client, "hostile", "RUNNING")
        wait_for_state(client, "ended", "ENDED")
        client.drain("box", f"{NASTY}"[:200])
        yield server


async def harmless(page) -> None:
    assert await page.see(INJECTED) == 0, await page.see("location.href")
    assert page.dialogs == []
    assert page.forbidden == []


async def test_commands_log_lines_titles_and_reasons_are_shown_and_never_run(live, page):
    await page.sign_in(live.client().sign_in_link())
    for path in PAGES:
        await page.open(f"{live.url}{path}")
        await harmless(page)
    await page.open(f"{live.url}/sessions/hostile")
    await page.until(f"document.querySelector('.log').innerText.includes({json.dumps(IMAGE)})")
    await page.until("document.querySelector('.log').innerText.includes('red \\\\u202eturned')")
    await page.shows(IMAGE)
    assert "taken" not in await page.see("document.title")
    await harmless(page)
    await page.keep("hostile-session")
    await page.open(f"{live.url}/admin/nodes")
    await page.shows(IMAGE)
    await page.keep("hostile-node")


async def test_what_an_address_says_is_never_run(live, page):
    await page.sign_in(live.client().sign_in_link())
    nasty = quote(NASTY + CONTROLS)
    for path in ("/sessions/{}", "/cluster?host={}&kind={}", "/queue?rows={}", "/new?name={}&image={}&command={}", "/bookings?span={}", "/admin/events?user={}&what={}", "/admin/users/{}", "/static/{}"):
        await page.go(f"{live.url}{path.replace('{}', nasty)}")
        await page.until("document.readyState === 'complete' && document.body !== null && location.href !== 'about:blank'")
        await harmless(page)


async def test_a_name_with_markup_is_refused_beside_its_field_in_words(live, page):
    await page.sign_in(live.client().sign_in_link())
    await page.open(f"{live.url}/new")
    for field in ("name", "cpus"):
        await page.see(f"document.getElementById('{field}').focus()")
        await page.type(IMAGE)
        await page.until(f"document.getElementById('fault-{field}')?.textContent.includes('<img')")
        await harmless(page)
    await page.keep("hostile-launch")


async def test_a_terminal_shows_what_it_is_sent_and_keeps_the_page_as_it_is(live, page):
    await page.sign_in(live.client().sign_in_link())
    await page.open(f"{live.url}/sessions/hostile/terminal")
    await page.until("document.getElementById('terminal')?.dataset.state === 'open'")
    title = await page.see("document.title")
    await page.copy("mine", live.url)
    await page.type(r"""printf '\033]0;taken\007\033]52;c;dGFrZW4=\007\033]8;;javascript:alert(4)\007link\033]8;;\007 <img src=x onerror=alert(5)> sh''own\n'""")
    await page.enter()
    await page.until("document.querySelector('.xterm-rows').textContent.includes('onerror=alert(5)> shown')")
    assert await page.see("document.title") == title
    assert await page.copied() == "mine"
    await harmless(page)
