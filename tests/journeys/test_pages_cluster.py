"""A real browser on the cluster, the queue, the ledger and the bookings: what changes is seen without a reload, and nothing is cut off."""
import pytest
from bench.server import LiveServer
from bench.web_lab import a_web_lab
from bench.web_pages import opened, served
from chromium import PHONE, a_page

from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

PAGES = ("/cluster", "/queue", "/fairness", "/bookings?span=week")
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
WAITS = ["sh", "-c", "while :; do sleep 1; done"]
ROOM = {"cpus": "0.1", "memory": "256MiB"}


@pytest.fixture
def live(tmp_path):
    with LiveServer(tmp_path / "fairy", options=("--simulate", "2xA100-40GB")) as server:
        yield server


async def signed_in(page, live, path):
    await page.sign_in(live.client().sign_in_link())
    await page.open(f"{live.url}{path}")


async def test_a_bar_fills_and_empties_while_one_looks_and_filters_are_links(live):
    client = live.client()
    async with a_page() as page:
        await signed_in(page, live, "/cluster")
        await page.until("document.querySelectorAll('#hosts .gpu').length === 2")
        await page.until("document.querySelector('h1').textContent.startsWith('2 of 2')")
        await page.see("document.getElementById('hosts').firstElementChild.marked = true")
        client.submit({"name": "held", "gpus": "0.5", "command": WAITS, **ROOM})
        await page.until("document.querySelector('#hosts .seg text')?.textContent.startsWith('held')")
        await page.until("document.querySelector('h1').textContent.startsWith('1.5 of 2')")
        assert await page.see("document.querySelector('#hosts a[href=\"/sessions/held\"]') !== null")
        await page.keep("cluster-half-held")
        assert await page.see("document.getElementById('hosts').firstElementChild.marked")
        await page.open(f"{live.url}/cluster?mine=1")
        await page.until("document.querySelectorAll('#hosts .gpu').length === 1")
        await page.see("select = document.getElementById('filter-kind'); select.value = 'A100-40GB'; select.dispatchEvent(new Event('change', {bubbles: true}))")
        await page.until("location.search.includes('kind=A100-40GB') && location.search.includes('mine=1')")
        client.stop("held")
        await page.until("document.getElementById('hosts')?.textContent.includes('No GPU here is what the filter asks for')")
        assert page.forbidden == []


async def test_hosts_off_the_screen_stay_as_they_were_until_one_scrolls_to_them(tmp_path):
    """What the page asks for again is what it shows: of the rest it is only told that they are there."""
    first, last = "document.querySelector('#host-gpu001 .meta').textContent", "document.querySelector('#host-gpu030 .meta').textContent"
    async with a_web_lab(tmp_path, hosts=30) as lab, served(lab) as url, a_page() as page:
        await opened(page, url, lab.cookie, hosts=30)
        before = {name: await page.see(name) for name in (first, last)}
        lab.read_all(seed=7)
        await page.see("document.body.dispatchEvent(new CustomEvent('live-changed'))")
        await page.until(f"{first} !== {before[first]!r}")
        assert await page.see(last) == before[last]
        assert await page.see("document.querySelectorAll('#hosts .gpu').length") == 240
        await page.see("document.getElementById('host-gpu030').scrollIntoView()")
        await page.until(f"{last} !== {before[last]!r}")


async def test_what_is_typed_stays_while_the_page_looks_again(live):
    async with a_page() as page:
        await signed_in(page, live, "/cluster")
        await page.see("document.getElementById('filter-host').focus()")
        await page.type("half a na")
        live.client().submit({"name": "held", "gpus": "1", "command": WAITS, **ROOM})
        await page.until("document.querySelector('#hosts .seg text')?.textContent.startsWith('held')")
        assert await page.see("document.getElementById('filter-host').value") == "half a na"


async def test_the_queue_moves_while_one_looks(live):
    client = live.client()
    client.submit({"name": "first", "gpus": "2", "command": WAITS, "time": "1h", **ROOM})
    wait_for_state(client, "first", "RUNNING")
    async with a_page() as page:
        await signed_in(page, live, "/queue")
        await page.until("document.querySelector('h1').textContent.startsWith('Nobody waits')")
        client.submit({"name": "next", "gpus": "1", "command": WAITS, **ROOM})
        await page.until("document.querySelector('h1').textContent.startsWith('Yours is number 1 of 1, and starts at about')")
        await page.until("document.querySelector('.promise')?.textContent.includes('First in line is next')")
        await page.keep("queue-with-a-promise")
        client.stop("first")
        await page.until("document.querySelector('h1').textContent.startsWith('Nobody waits')")
        assert page.forbidden == []


async def test_a_class_is_booked_and_seen_in_the_calendar_and_cancelled(live):
    async with a_page() as page:
        await signed_in(page, live, "/bookings")
        await page.see("document.querySelector('[name=title]').value = 'CS231n <i>'; document.querySelector('[name=gpus]').value = 9; document.querySelector('.book-form').requestSubmit()")
        await page.until("document.querySelector('.fault')?.textContent.includes('9 GPUs asked')")
        await page.see("document.querySelector('[name=gpus]').value = 1; document.querySelector('.book-form').requestSubmit()")
        await page.until("document.querySelector('.slots .seg text')?.textContent === 'CS231n <i>'")
        await page.keep("bookings-with-one")
        await page.see("window.confirm = () => true; document.querySelector('form[action$=\"/cancel\"]').requestSubmit()")
        await page.until("document.querySelector('h1')?.textContent === 'Nothing is booked.'")
        assert page.forbidden == []


async def test_nothing_runs_off_the_edge_of_a_phone(live):
    client = live.client()
    for name in ("a-session-with-quite-a-long-name-indeed", "another"):
        client.submit({"name": name, "gpus": "2", "command": WAITS, "time": "1h", **ROOM})
    async with a_page() as page:
        await page.wide(PHONE)
        await signed_in(page, live, "/")
        for path in PAGES:
            await page.open(f"{live.url}{path}")
            assert not await page.see(OVERFLOWS), path
