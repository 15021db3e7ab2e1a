"""An address that is no page's, as a browser and as a program are told of it."""
import pytest
from admin_browser import as_user
from house_scene import a_house

from gpufairy.web.no_page import add_no_page


@pytest.fixture
async def browser(tmp_path):
    async with a_house(tmp_path) as scene:
        found = await as_user(scene, "ann")
        add_no_page(found._app)


        yield found


HTML = {"accept": "text/html,application/xhtml+xml"}


async def test_a_browser_is_shown_a_page_that_leads_on(browser):
    page = await browser.get("/nothing-<b>", **HTML)
    assert page.status == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src" in page.headers["content-security-policy"]
    assert b"nothing-<b>" not in page.body
    assert 'href="/"' in page.text


async def test_in_its_tongue(browser):
    assert "없는 페이지입니다" in (await browser.get("/nothing", **HTML, **{"accept-language": "ko"})).text


async def test_a_program_is_told_a_problem(browser):
    for path, headers in (("/nothing", {}), ("/api/v1/nothing", HTML)):
        answer = await browser.get(path, **headers)
        assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
