"""A real browser makes a class of a file in CP949, prints its links, and comes in by one; accounts fit a phone."""
import base64
from datetime import UTC, datetime, timedelta

import pytest
from bench.server import LiveServer
from chromium import a_page

pytestmark = [pytest.mark.slow, pytest.mark.system]

CHOOSE = """(() => {{
  const bytes = Uint8Array.from(atob('{data}'), (letter) => letter.charCodeAt(0)), files = new DataTransfer();
  files.items.add(new File([bytes], 'students.csv'));
  const input = document.querySelector('input[type=file]');
  input.files = files.files;
  input.dispatchEvent(new Event('change', {{bubbles: true}}));
}})()"""
FILL = "form = document.querySelector('form[data-roster]'); form.elements.name.value = 'cs231n'; form.elements.end.value = '{end}'; form.requestSubmit()"


@pytest.fixture
def live(tmp_path):
    with LiveServer(tmp_path / "fairy", "", ("--simulate", "1xA100-40GB")) as server:
        yield server


async def test_a_file_of_students_becomes_a_class_and_a_student_comes_in(live):
    roster = base64.b64encode("학번,이름\n20231234,김철수\n20231235,이영희\n".encode("cp949")).decode()
    end = f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}"
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.open(f"{live.url}/admin/classes")
        await page.see(CHOOSE.format(data=roster))
        await page.until("document.querySelector('form[data-roster]').elements.roster.value !== ''")
        await page.see(FILL.format(end=end))
        await page.shows("2 students, and no fault.")
        await page.shows("김철수")
        await page.see("document.querySelector('form[action=\"/admin/classes/add\"]').requestSubmit()")
        await page.until("location.search === '?name=cs231n'")
        await page.see("document.querySelector('form[action=\"/admin/classes/links\"]').requestSubmit()")
        await page.until("document.querySelectorAll('.sheet code').length === 2")
        link = await page.see("document.querySelector('.sheet code').innerText")
        for path in ("/admin/classes", "/admin/classes?name=cs231n", "/admin/accounting", "/fairness"):
            await page.wide(360)
            await page.open(f"{live.url}{path}")
            assert await page.see("document.documentElement.scrollWidth") <= 360, path
        await page.go(link)
        await page.until("document.querySelector('form[action=\"/join\"]') !== null")
        await page.see("document.querySelector('form[action=\"/join\"]').requestSubmit()")
        await page.until("location.pathname === '/account'")
        await page.shows("You are s20231234")
        await page.go(f"{live.url}/accounting/report")
        await page.until("document.readyState === 'complete' && location.pathname === '/accounting/report'")
        assert await page.see("getComputedStyle(document.body).maxWidth") == "960px"
        assert page.forbidden == []
