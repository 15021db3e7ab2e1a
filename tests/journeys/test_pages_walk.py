"""A newcomer's first minutes in a real browser, from the link to the result: in their own tongue, dark, and without a reload."""
import pytest
from bench.server import LiveServer

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n"
ROOM = {"cpus": 1, "memory": "1GiB"}
STATE = "document.querySelector('.state')?.textContent"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS, ("--simulate", "2xA100-40GB")) as server:
        yield server


@pytest.fixture(scope="module")
def newcomer(live):
    admin = live.client()
    admin.add_user({"name": "newcomer"})
    return live.client(admin.create_token({"user": "newcomer"})["token"])


async def choose(page, field: str, value: str) -> None:
    await page.see(f"chosen = document.querySelector('select[name={field}]'); chosen.value = '{value}'; chosen.dispatchEvent(new Event('change', {{bubbles: true}}))")


async def test_from_the_link_to_the_result_of_a_first_job(live, newcomer, page):
    await page.sign_in(newcomer.sign_in_link())
    await page.shows("You hold nothing, and nothing of yours waits.")
    await page.keep("first-home")
    await page.press("a[href='/new']")
    await page.until("document.querySelector('.verdict')?.textContent.includes('starts now')")
    await page.press("input[name=kind][value=batch]")
    await page.see("document.querySelector('[name=command]').focus()")
    await page.type("sh -c 'echo accuracy 0.93; echo 0.93 > $FAIRY_RESULTS/accuracy.txt'")
    await page.until("document.getElementById('command-text').textContent.includes('accuracy')")
    await page.press("form.launch .button.main")
    await page.until("location.pathname.startsWith('/sessions/')")
    await page.until(f"{STATE} === 'Done'")
    await page.until("document.querySelector('.log').innerText.includes('accuracy 0.93')")
    await page.keep("first-result")
    assert page.forbidden == []


async def test_one_that_waits_says_when_and_starts_while_one_looks(live, newcomer, page):
    others = live.client()
    others.submit({"name": "holds", "gpus": "2", "time": "2h", "command": ["sleep", "600"], **ROOM})
    wait_for_state(others, "holds", "RUNNING")
    newcomer.submit({"name": "mine", "gpus": "1", "command": ["sh", "-c", "echo begun; sleep 600"], **ROOM})
    await page.sign_in(newcomer.sign_in_link())
    await page.open(f"{live.url}/sessions/mine")
    await page.until(f"{STATE} === 'Waiting'")
    await page.shows("place in line")
    await page.see("document.body.marked = true")
    await page.keep("wait")
    others.stop("holds")
    await page.until(f"{STATE} === 'Running'")
    await page.until("document.querySelector('.log').innerText.includes('begun')")
    await page.until("document.querySelectorAll('#charts canvas').length >= 6")
    assert await page.see("document.body.marked === true")
    assert "Running" in await page.see("document.title")
    newcomer.stop("mine")


async def test_a_job_that_begins_and_ends_between_two_looks_shows_all_it_printed(live, newcomer, page):
    others = live.client()
    others.submit({"name": "all", "gpus": "2", "time": "2h", "command": ["sleep", "600"], **ROOM})
    wait_for_state(others, "all", "RUNNING")
    newcomer.submit({"name": "quick", "gpus": "1", "command": ["echo", "that was all"], **ROOM})
    await page.sign_in(newcomer.sign_in_link())
    await page.open(f"{live.url}/sessions/quick")
    await page.until(f"{STATE} === 'Waiting'")
    await page.see("document.body.addEventListener('htmx:beforeRequest', (event) => { if (!window.looks) event.preventDefault() })")
    others.stop("all")
    wait_for_state(newcomer, "quick", "ENDED")
    await page.see("window.looks = true; document.body.dispatchEvent(new CustomEvent('live-changed'))")
    await page.until(f"{STATE} === 'Done'")
    await page.until("document.querySelector('.log').innerText.includes('that was all')")


async def test_tongue_and_look_are_chosen_below_and_kept(live, newcomer, page):
    await page.sign_in(newcomer.sign_in_link())
    await choose(page, "language", "ko")
    await page.until("document.documentElement.lang === 'ko' && document.querySelector('nav a')?.innerText === '홈'")
    await choose(page, "theme", "dark")
    await page.until("document.documentElement.dataset.theme === 'dark'")
    dark = await page.see("getComputedStyle(document.body).backgroundColor")
    await page.open(f"{live.url}/queue")
    assert await page.see("[document.documentElement.lang, document.documentElement.dataset.theme].join()") == "ko,dark"
    assert await page.see("getComputedStyle(document.body).backgroundColor") == dark
    await page.keep("chosen-korean-dark")
    await choose(page, "theme", "light")
    await page.until("document.documentElement.dataset.theme === 'light'")
    assert await page.see("getComputedStyle(document.body).backgroundColor") != dark
    await choose(page, "language", "en")
    await page.until("document.documentElement.lang === 'en'")


async def test_a_browser_that_speaks_korean_and_is_dark_needs_to_choose_nothing(live, newcomer, page):
    await page.call("Network.enable")
    await page.call("Network.setExtraHTTPHeaders", headers={"Accept-Language": "ko-KR,ko;q=0.9,en;q=0.8"})
    await page.dark()
    await page.sign_in(newcomer.sign_in_link())
    assert await page.see("document.documentElement.lang") == "ko"
    assert await page.see("getComputedStyle(document.body).backgroundColor") == "rgb(21, 21, 20)"
    await page.call("Network.disable")
