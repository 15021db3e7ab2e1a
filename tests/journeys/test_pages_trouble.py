"""When things go wrong under an open page: the server goes, or says nothing more, or the sign-in ends. It says so, and heals without a reload."""
import asyncio
import os
import signal

import pytest
from bench.server import LiveServer
from test_ssh import Person

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n"
WAITS = ["sleep", "600"]
CUT, OUT = (f"getComputedStyle(document.querySelector('{css}')).display === 'block'" for css in (".cut", ".out"))
LATER = "real = Date.now; Date.now = () => real() + 17000"  # ms: longer than a page waits for a word of the server
SEES_IT_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS, ("--simulate", "4xA100-40GB"), ssh=True) as server:
        yield server


@pytest.fixture(scope="module")
def kim(live):
    return Person(live, "kim")


async def opened(page, live, client, path):
    await page.sign_in(client.sign_in_link())
    await page.open(f"{live.url}{path}")
    await page.see("document.body.marked = true; document.getElementById('filter-host')?.focus()")


async def is_the_same_page(page) -> bool:
    return await page.see("document.body.marked === true")


def shut_out(kim):
    """As when the time of their browsers is over."""
    for token in kim.client.tokens():
        if token["scope"] == "page":
            kim.client.revoke_token(token["id"])


async def test_a_page_says_that_it_is_cut_off_and_goes_on_by_itself_when_the_server_is_back(live, page):
    await opened(page, live, live.client(), "/cluster")
    await page.type("half a na")
    live.stop()
    await page.until(CUT)
    await page.shows("What is shown may be old")
    assert await page.see("/\\d/.test(document.getElementById('cut-since').textContent)")
    await page.keep("trouble-cut-off")
    await asyncio.to_thread(live.start)
    live.client().submit({"name": "afterwards", "gpus": "1", "command": WAITS})
    await page.until("document.querySelector('#hosts .seg text')?.textContent.startsWith('afterwards')")
    await page.until(f"!({CUT})")
    assert await is_the_same_page(page)
    assert await page.see("document.getElementById('filter-host').value") == "half a na"
    assert page.forbidden == []


async def test_a_server_that_hangs_is_noticed_though_no_connection_ends(live, page):
    await opened(page, live, live.client(), "/queue")
    os.kill(live.pid, signal.SIGSTOP)
    try:
        await page.see(LATER)
        await page.until(CUT)
    finally:
        os.kill(live.pid, signal.SIGCONT)
    await page.until(f"!({CUT})")
    assert await is_the_same_page(page)


async def test_who_signs_in_again_in_another_tab_goes_on_where_they_were(live, kim, page):
    await opened(page, live, kim.client, "/cluster")
    await page.type("half a na")
    shut_out(kim)
    await page.until(OUT)
    assert not await page.see("getComputedStyle(document.querySelector('.cut:not(.out)')).display === 'block'")
    await page.keep("trouble-signed-out")
    await page.see(f"fetch({kim.client.sign_in_link()!r}); true")
    await page.until(f"{SEES_IT_AGAIN} && !({OUT})")
    assert await is_the_same_page(page)
    assert await page.see("document.getElementById('filter-host').value") == "half a na"


async def test_a_sign_in_that_ended_leads_back_to_where_one_was(live, kim, page):
    await opened(page, live, kim.client, "/cluster?kind=A100-40GB")
    shut_out(kim)
    await page.until(OUT)
    await page.press(".out a")
    await page.until("document.querySelector('input[name=token]') !== null")
    await page.keep("trouble-sign-in-again")
    await page.see("document.querySelector('input[name=token]').focus()")
    await page.type(live.client().create_token({"user": "kim"})["token"])
    await page.enter()
    await page.until("location.pathname + location.search === '/cluster?kind=A100-40GB'")
    await page.until("document.querySelector('.who')?.innerText.includes('kim')")
    assert page.forbidden == []


async def test_a_button_pressed_too_late_leads_back_to_its_page(live, kim, page):
    await opened(page, live, kim.client, "/bookings?span=week")
    shut_out(kim)
    await page.see("document.querySelector('[name=title]').value = 'late'; document.querySelector('.book-form').requestSubmit()")
    await page.shows("You are not signed in")
    await page.go(kim.client.sign_in_link())
    await page.until("location.pathname + location.search === '/bookings?span=week'")
    assert kim.client.bookings() == []


async def test_an_ssh_key_signs_a_browser_in_once(live, kim, page):
    await page.open(f"{live.url}/queue")  # a stranger is turned away, and shown the very command
    await page.shows("NAME@127.0.0.1 signin")
    done = await asyncio.to_thread(kim.ssh, "signin")
    assert done.returncode == 0, done.stderr
    link = done.stdout.decode().split()[-1]
    await page.go(link)
    await page.until("location.pathname === '/queue' && document.querySelector('.who')?.innerText.includes('kim')")
    await page.keep("signed-in-by-ssh")
    await page.fresh()
    await page.go(link)
    await page.shows("This sign-in link was used before")
