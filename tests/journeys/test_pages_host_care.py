"""A real browser on the page of hosts: a window is planned and ended there, hosts have their record, and what was put right is shown."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from bench.server import LiveServer
from chromium import PHONE, a_page

from gpufairy.core.agent import Agent
from gpufairy.core.alert import Alert, Severity
from gpufairy.core.steps import deed_event
from gpufairy.core.uptime import Spell
from gpufairy.store.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.system]
HOUR = timedelta(hours=1)
MENDED = "on box ran what was session night-owl of kim, which is over: it was stopped"
FILL = "form = document.querySelector('form[action=\"/admin/nodes/maintenance\"]'); form.elements['time'].value = '2h'; form.elements['why'].value = 'new disk'; form.requestSubmit()"


@pytest.fixture
async def live(tmp_path):
    server = LiveServer(tmp_path / "fairy", "[node]\nname = 'box'\n", ("--simulate", "2xA100-40GB"))
    server.data.mkdir(parents=True)
    await remember(f"sqlite:///{server.data / 'fairy.db'}")
    with server:
        yield server


async def remember(url: str) -> None:
    """As after some weeks: a host that was away twice, a server that was down once, and a leak that was put right."""
    now = datetime.now(UTC)
    store = await Store.open(url, holder="test", half_life=timedelta(days=7))
    await store.agents.put(Agent("gpu07", bytes(32), now - 20 * 24 * HOUR, "root"))
    start = now - 50 * HOUR
    silent = Alert("a1", "node_silent", "gpu07", "gpu07", Severity.CRITICAL, "gpu07 is silent", "", start, start, fired_at=start)
    over = replace(silent, resolved_at=start + 3 * HOUR, ended_why="it is back; the host was started anew")
    later = replace(silent, id="a2", since=start + 20 * HOUR, fired_at=start + 20 * HOUR, resolved_at=start + 21 * HOUR)
    again = replace(later, ended_why="it is back; its agent had stopped, the host itself ran on")
    await store.alerts.save([over, again], [], now)
    await store.maintenance.add_unwatched(Spell(now - 100 * HOUR, now - 95 * HOUR))
    await store.events.add(deed_event("node:box", "leak_mended", now - HOUR, MENDED, actor=""))
    await store.close()


async def test_an_admin_sees_how_hosts_fare_and_plans_when_one_is_worked_on(live):
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.go(f"{live.url}/admin/nodes")
        await page.shows("it is back; the host was started anew")
        await page.shows("5 h not watched")
        await page.shows("it was stopped")
        await page.see(FILL)
        await page.shows("maintenance until")
        await page.keep("admin-nodes-care")
        await page.dark()
        await page.keep("admin-nodes-care-dark")
        await page.dark(False)
        await page.wide(PHONE)
        assert await page.see("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off on a phone"
        await page.keep("admin-nodes-care-phone")
        await page.wide(1280)
        await page.go(f"{live.url}/cluster")
        await page.shows("% of 20")
        await page.keep("cluster-uptime")
        await page.go(f"{live.url}/admin/nodes")
        await page.press("form[action='/admin/nodes/end-window'] button")
        await page.until("document.getElementById('maintenance') === null && document.body.innerText.includes('Plan maintenance')")
        assert page.forbidden == []
    assert live.client().maintenance() == []
