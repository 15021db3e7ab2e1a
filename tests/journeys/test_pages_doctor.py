"""A real browser on the doctor's page: it fills itself, looks again by a button, has lines to copy, and fits a phone in both tongues."""
import pytest
from bench.server import LiveServer
from chromium import a_page

pytestmark = [pytest.mark.slow, pytest.mark.system]


@pytest.fixture
def live(tmp_path):
    with LiveServer(tmp_path / "fairy", "[node]\nname = 'box'\n", ("--simulate", "1xA100-40GB")) as server:
        server.data.chmod(0o755)  # so that there is something to mend
        yield server


async def test_the_page_fills_itself_and_what_mends_a_trouble_can_be_copied(live):
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.open(f"{live.url}/admin/doctor")
        await page.until("document.querySelector('#check-data-folder') !== null")
        mends = await page.see("document.querySelector('#fix-data-folder').innerText")
        assert mends.strip() == f"chmod o-rwx {live.data}"
        assert await page.see("document.querySelector('#check-data-folder [data-copy]') !== null")
        await page.keep("doctor")
        live.data.chmod(0o700)
        await page.see("document.querySelector('form[action=\"/admin/doctor/look\"]').requestSubmit()")
        await page.until("document.querySelector('#check-data-folder') === null && document.querySelector('table') !== null")
        await page.shows("is ours alone")
        await page.wide(360)
        await page.open(f"{live.url}/admin/doctor")
        assert await page.see("document.documentElement.scrollWidth") <= 360
        await page.keep("doctor_phone")
        assert page.forbidden == []
