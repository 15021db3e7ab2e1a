"""A real browser on the real pages: the terminal is typed into, and an app is opened by its button. Nothing is forbidden by a policy of ours."""
import pytest
from apps_browser import SETTINGS
from bench.server import LiveServer
from chromium import a_page

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

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
            await page.go(client.sign_in_link())
            await page.until("document.querySelector('form[action=\"/signout\"]') !== null")
            await page.go(f"{live.url}/sessions/seen/terminal")
            await page.until("document.getElementById('terminal')?.dataset.state === 'open'")
            await page.type("echo $((6 * 7))-$FAIRY_SESSION")
            await page.enter()
            await page.until("document.querySelector('.xterm-rows').textContent.includes('42-seen')")
            await page.type("exit 3")
            await page.enter()
            await page.until("document.querySelector('.xterm-rows').textContent.includes('ended with code 3')")
            await page.go(f"{live.url}/sessions/seen")
            await page.until("document.querySelector('form[action$=\"/apps/tensorboard\"] button') !== null")
            await page.see("form = document.querySelector('form[action$=\"/apps/tensorboard\"]'); form.target = ''; form.submit()")
            await page.until("document.body.textContent.includes('the board; cookies: None')")
            assert [text for text in page.complaints if "Content Security Policy" in text] == []
