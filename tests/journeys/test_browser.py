"""A real browser on the real pages: the terminal is typed into, and an app is opened by its button. Nothing is forbidden by a policy of ours."""
import json

import pytest
from apps_browser import SETTINGS
from bench.server import LiveServer
from chromium import PHONE, a_page

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

SHOWN = "document.querySelector('.xterm-rows').textContent"
BOARD = """#!/usr/bin/env python3
import http.server, sys
class Board(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"the board; cookies: {self.headers.get('Cookie')}".encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[-1])), Board).serve_forever()
"""


async def test_a_person_uses_the_terminal_and_opens_an_app_on_the_page(tmp_path):
    (tmp_path / "tensorboard").write_text(BOARD)
    (tmp_path / "tensorboard").chmod(0o755)
    with LiveServer(tmp_path / "fairy", SETTINGS.format(ports="18500-18519"), ssh=True) as live:
        client = live.client()
        client.submit({"name": "seen", "kind": "interactive", "gpus": "0", "env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}})
        wait_for_state(client, "seen", "RUNNING")
        async with a_page() as page:
            await page.sign_in(client.sign_in_link())
            await page.copy("nothing yet", live.url)
            await page.open(f"{live.url}/sessions/seen/terminal")
            await page.until("document.getElementById('terminal')?.dataset.state === 'open'")
            await page.type("echo $((6 * 7))-$FAIRY_SESSION")
            await page.enter()
            await page.until(f"{SHOWN}.includes('42-seen')")
            await page.keep("terminal")
            await follows_the_window(page)
            await copies_what_is_marked(page)
            await page.type("exit 3")
            await page.enter()
            await page.until(f"{SHOWN}.includes('ended with code 3')")
            await page.open(f"{live.url}/sessions/seen")
            await page.until("document.querySelector('form[action$=\"/apps/tensorboard\"] button') !== null")
            await page.see("form = document.querySelector('form[action$=\"/apps/tensorboard\"]'); form.target = ''; form.submit()")
            await page.until("document.body.textContent.includes('the board; cookies: None')")
            assert page.forbidden == []


async def follows_the_window(page) -> None:
    """What the shell inside believes its width to be."""
    await page.type("clear; while sleep 0.1; do printf '\\rcolumns:%s: ' $(stty size | cut -d' ' -f2); done")
    await page.enter()
    for pixels, least, most in ((1280, 110, 180), (700, 60, 90), (PHONE, 30, 45)):
        await page.wide(pixels)
        await page.until(f"columns = Number({SHOWN}.match(/columns:(\\d+):/)?.[1]); columns >= {least} && columns <= {most}")
        await page.until("document.documentElement.scrollWidth <= innerWidth")
    await page.keep("terminal-phone")
    await page.key("c", ctrl=True)


async def copies_what_is_marked(page) -> None:
    await page.wide(1280)
    await page.type("clear; echo mark''ed")
    await page.enter()
    await page.until("document.querySelector('.xterm-rows > div').textContent.startsWith('marked')")
    place = json.loads(await page.see("box = document.querySelector('.xterm-rows > div').getBoundingClientRect(); JSON.stringify([box.x, box.y + box.height / 2])"))
    await page.drag((place[0] + 1, place[1]), (place[0] + 300, place[1]))
    await page.key("c", ctrl=True, shift=True)
    await page.until("document.getElementById('terminal-said').textContent === 'Copied.'")
    assert (await page.copied()).strip() == "marked"
