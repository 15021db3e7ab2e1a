"""A real browser on the first page, the form of a new session and the page of images: nothing is forbidden by a policy of ours."""
import pytest
from bench.server import LiveServer
from chromium import PHONE, a_page

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

SETTINGS = """
[presets.train]
gpus = "0.25"
command = ["sh", "-c", "echo trained"]
time = "1h"
"""
SETS = "field = document.querySelector('{name}'); field.value = '{value}'; field.dispatchEvent(new Event('input', {{bubbles: true}}))"
TELLS = "document.querySelector('.verdict')?.textContent.includes('{words}')"


@pytest.fixture
def live(tmp_path):
    with LiveServer(tmp_path / "fairy", SETTINGS, ("--simulate", "2xA100-40GB")) as server:
        yield server


async def signed_in(page, live, path):
    await page.sign_in(live.client().sign_in_link())
    await page.open(f"{live.url}{path}")


async def test_the_form_says_before_the_click_what_becomes_of_it_and_starts_just_that(live):
    async with a_page() as page:
        await signed_in(page, live, "/new?preset=train")
        await page.until(TELLS.format(words="starts now"))
        assert "gpus: 0.25" in await page.see("document.getElementById('file-text').textContent")
        await page.until("!document.querySelector('.slider').hidden")
        await page.see("slider = document.querySelector('.slider'); slider.value = 3; slider.dispatchEvent(new Event('input', {bubbles: true}))")
        await page.until("document.getElementById('command-text').textContent.includes('--gpus 0.5 ')")
        await page.see(SETS.format(name="#cpus", value="lots"))
        await page.until("document.getElementById('fault-cpus').textContent.includes('is no number of CPUs')")
        await page.see(SETS.format(name="#cpus", value="0.1"))
        await page.see(SETS.format(name="#name", value="by-hand"))
        await page.until("document.getElementById('fault-cpus').textContent === ''")
        await page.until("document.getElementById('command-text').textContent.includes('--name by-hand')")
        await page.keep("launch-filled-in")
        await page.see("document.querySelector('form.launch').requestSubmit()")
        await page.until("location.pathname === '/sessions/by-hand'")
        wait_for_state(live.client(), "by-hand", "ENDED")
        asked = live.client().session("by-hand")["request"]
        assert (asked["gpus"], asked["cpus"], asked["command"]) == ("0.5", 0.1, ["sh", "-c", "echo trained"])
        await page.go(f"{live.url}/")
        await page.until("document.querySelector('form[action$=\"/resume\"] button')?.textContent.includes('Start by-hand again')")
        await page.see("document.querySelector('form[action$=\"/resume\"] button').click()")
        await page.until("location.pathname === '/sessions/by-hand'")
        assert len([s for s in live.client().sessions(ended=True) if s["name"] == "by-hand"]) == 2
        assert page.forbidden == []


async def test_what_waits_is_told_with_the_reason_and_an_open_first_page_follows(live):
    client, room = live.client(), {"cpus": "0.1", "memory": "1GiB"}
    async with a_page() as page:
        await signed_in(page, live, "/")
        await page.until("document.body.textContent.includes('You hold nothing')")
        client.submit({"name": "holds", "command": ["sleep", "600"], "gpus": "2", "time": "14m", **room})
        await page.until("document.querySelector('#held-holds .meter') !== null")
        await page.see("document.querySelector('form[action=\"/sessions/holds/keep\"] button').click()")
        await page.until("document.querySelector('form[action=\"/sessions/holds/keep\"]') === null")
        assert await page.see("location.pathname") == "/"
        await page.go(f"{live.url}/new?gpus=1&cpus=0.1&memory=1GiB")
        await page.until(TELLS.format(words="Waits"))
        await page.until(TELLS.format(words="0 of 2 GPUs wholly free"))
        await page.until("document.querySelector('.starts.later') !== null && document.querySelector('.starts.now') !== null")
        await page.keep("launch-would-wait")
        assert page.forbidden == []


async def test_nothing_runs_off_the_edge_of_a_phone(live):
    live.client().submit({"name": "a-name-that-is-rather-long-for-any-phone", "command": ["sleep", "600"], "gpus": "0.5", "time": "10m"})
    async with a_page() as page:
        await page.wide(PHONE)
        for path in ("/", "/new?preset=train", "/images"):
            await signed_in(page, live, path)
            assert await page.see("document.documentElement.scrollWidth") <= PHONE, path
            await page.keep(f"long-name-phone-{path[1:4] or 'home'}")
        assert page.forbidden == []
