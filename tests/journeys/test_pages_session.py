"""A session's page in a real browser: the log follows, charts get new points, the terminal heals, what is clicked is done."""
import asyncio

import pytest
from bench.server import LiveServer
from chromium import PHONE, a_page

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

NODE = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n"
PRINTS = "i=0; while true; do i=$((i+1)); printf '\\033[32mstep %s\\033[0m <b>x</b>\\n' $i; sleep 0.2; done"
LOG = "document.querySelector('.log').innerText"


async def test_the_page_of_a_session_follows_it_and_does_what_is_clicked(tmp_path):
    with LiveServer(tmp_path / "fairy", NODE) as live:
        client = live.client()
        client.submit({"name": "seen", "command": ["sh", "-c", PRINTS], "gpus": "0.5", "time": "1h", "cpus": 1, "memory": "1GiB"})
        wait_for_state(client, "seen", "RUNNING")
        async with a_page() as page:
            await page.sign_in(client.sign_in_link())
            await page.go(f"{live.url}/sessions/seen")
            await page.until(f"/step 3 <b>x<\\/b>/.test({LOG})")
            assert "\x1b" not in await page.see(LOG)
            before = int((await page.see(LOG)).strip().split("\n")[-1].split()[1])
            await page.until(f"{LOG}.includes('step {before + 5} ')")
            await page.until("document.querySelectorAll('#charts canvas').length >= 6")
            points = int(await page.see("document.getElementById('charts').dataset.points"))
            await page.until(f"document.getElementById('charts').dataset.points > {points}")
            await page.wide(PHONE)
            await page.until("document.documentElement.scrollWidth <= 360")
            await page.keep("session-phone")
            await page.wide(1200)
            await page.keep("session")
            await page.see("document.querySelector('form[action$=\"/keep\"] button').click()")
            await page.until("document.querySelector('.said')?.textContent.includes('kept until')")
            await page.see("window.confirm = () => true; document.querySelector('form[action$=\"/stop\"] button').click()")
            await page.until("document.querySelector('.state')?.textContent === 'Stopped'")
            assert "step" in await page.see(LOG)
            await page.until("document.querySelector('form[action$=\"/resume\"] button') !== null")
            await page.keep("session-stopped")
            assert page.forbidden == []


async def test_a_server_that_restarts_under_an_open_page_is_found_again_by_log_and_terminal(tmp_path):
    with LiveServer(tmp_path / "fairy", NODE) as live:
        client = live.client()
        client.submit({"name": "lasts", "kind": "interactive", "command": ["sh", "-c", PRINTS], "gpus": "0"})
        wait_for_state(client, "lasts", "RUNNING")
        async with a_page() as page:
            await page.sign_in(client.sign_in_link())
            await page.go(f"{live.url}/sessions/lasts")
            await page.until(f"{LOG}.includes('step 2 ')")
            live.stop()
            await page.until("document.querySelector('#log-card [data-state]').textContent.includes('trying again')")
            await asyncio.to_thread(live.start)
            last = int((await page.see(LOG)).strip().split("\n")[-1].split()[1])
            await page.until(f"{LOG}.includes('step {last + 5} ')")
            steps = [int(line.split()[1]) for line in (await page.see(LOG)).strip().split("\n")]
            assert steps == list(range(steps[0], steps[0] + len(steps)))  # nothing twice, nothing left out
            await page.go(f"{live.url}/sessions/lasts/terminal")
            await page.until("document.getElementById('terminal')?.dataset.state === 'open'")
            live.stop()
            await page.until("document.getElementById('terminal').dataset.state === 'lost'")
            await asyncio.to_thread(live.start)
            await page.until("document.getElementById('terminal').dataset.state === 'open'")
            await page.until("document.querySelector('.xterm-rows').textContent.includes('new shell')")
            await page.type("echo $((6 * 7))-$FAIRY_SESSION")
            await page.enter()
            await page.until("document.querySelector('.xterm-rows').textContent.includes('42-lasts')")
            await page.keep("terminal-connected-again")
            assert page.forbidden == []
