"""The block of backups on the admin's overview, in a real browser: made by its button, and a failure told beside it."""
import shutil

import pytest
from bench.server import LiveServer
from chromium import PHONE, a_page

pytestmark = [pytest.mark.slow, pytest.mark.system]

PRESS = "document.querySelector('form[action=\"/admin/backups\"]').requestSubmit()"


@pytest.fixture
def live(tmp_path):
    with LiveServer(tmp_path / "fairy", f"[backup]\nto = '{tmp_path}/kept'\n") as server:
        yield server


async def test_a_backup_is_made_by_its_button_and_a_failure_stands_beside_it(live, tmp_path):
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.go(f"{live.url}/admin")
        await page.shows("There is no backup yet.")
        await page.see(PRESS)
        await page.shows("read back and found whole")
        await page.shows("Verified")
        await page.keep("admin-backup")
        await page.wide(PHONE)
        await page.keep("admin-backup-phone")
        shutil.rmtree(tmp_path / "kept")
        (tmp_path / "kept").write_text("in the way")
        await page.see(PRESS)
        await page.shows("could not be written to")
        await page.keep("admin-backup-failed")
        assert page.forbidden == []
    assert len(live.client().backups()["items"]) == 1
