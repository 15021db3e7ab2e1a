"""Every page in every look, in a real browser: axe-core finds nothing serious, nothing runs off the edge, nothing is forbidden; each is kept as a picture."""
import json
from dataclasses import dataclass

import pytest
from chromium import DESK, PHONE, a_page
from lab_scene import a_lab

pytestmark = [pytest.mark.slow, pytest.mark.system]

SESSIONS = ("/sessions/held", "/sessions/waits", "/sessions/fails", "/sessions/held/terminal", "/sessions/nobodys")
SHARED = ("/", "/new", "/cluster", "/queue", "/fairness", "/bookings", "/images", "/help", "/account")
ADMIN = ("", "/users", "/users/minji", "/teams", "/quotas", "/images", "/nodes", "/shares", "/mig", "/events", "/audit", "/settings", "/doctor", "/alerts",
         "/accounting", "/classes", "/pools", "/disk")  # fmt: skip
PAGES = (*SHARED, *SESSIONS, *(f"/admin{part}" for part in ADMIN))


@dataclass(frozen=True)
class Look:
    name: str
    across: int
    dark: bool = False
    korean: bool = False


LOOKS = (Look("desk", DESK), Look("desk-dark", DESK, dark=True), Look("phone", PHONE), Look("phone-korean-dark", PHONE, dark=True, korean=True))


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with a_lab(tmp_path_factory.mktemp("axe")) as server:
        yield server


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
async def test_no_page_has_a_serious_fault(live, look):
    async with a_page() as page:
        await page.wide(look.across)
        await page.dark(look.dark)
        await page.open(f"{live.url}/signin")
        await page.korean(look.korean)
        faults = {"/signin": await faults_of(page, live, "/signin", look)}
        await page.sign_in(live.client().sign_in_link())
        for path in PAGES:
            faults[path] = await faults_of(page, live, path, look)
        assert not any(faults.values()), json.dumps({path: found for path, found in faults.items() if found}, indent=1, ensure_ascii=False)
        assert page.forbidden == []


async def faults_of(page, live, path: str, look: Look) -> list[object]:
    await page.open(f"{live.url}{path}")
    await page.keep(f"{look.name}-{path.strip('/').replace('/', '-') or 'home'}")
    found = await page.faults()
    across = await page.see("document.documentElement.scrollWidth")
    return [*found, *([f"{across} pixels wide"] if across > look.across else [])]
