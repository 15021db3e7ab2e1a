"""Rows that are drawn once for all who are shown the same: nobody is shown another's, in another tongue or zone, or as it was before."""
from datetime import timedelta

import pytest
from house_scene import ANN, a_house
from session_browser import Browser

from builders import NOW
from gpufairy.control.door import submit
from gpufairy.control.registry import PAGE_SCOPE, Caller
from gpufairy.core.people import Role, User
from gpufairy.web.pages import _drawn_row, _marked
from gpufairy.wire.submit import SubmitBody

ROOM = {"cpus": "0.1", "memory": "1GiB", "time": "2h"}
BOB = User("bob", Role.USER, NOW)


@pytest.fixture
async def scene(tmp_path):
    _drawn_row.cache_clear()
    _marked.cache_clear()
    async with a_house(tmp_path) as found:
        await found.submit(name="holds", gpus="2", **ROOM)
        await found.rest()
        for owner, name in ((ANN, "anns-secret"), (BOB, "bobs-secret")):
            await found.house.registry.ensure_user(owner.name)
            body = SubmitBody.model_validate({"command": ["work"], "name": name, "gpus": "2", **ROOM})
            await submit(found.house, Caller(owner, "full"), body, {}, None)
        await found.rest()
        yield found


async def browser_of(scene, name):
    _, cookie = await scene.house.registry.create_token(name, "browser", PAGE_SCOPE, None)
    return Browser(scene, cookie), cookie


@pytest.mark.slow
async def test_two_who_look_at_the_queue_are_each_shown_their_own_names_alone_however_often_they_look(scene):
    (anns, _), (bobs, _) = await browser_of(scene, "ann"), await browser_of(scene, "bob")
    for _ in range(3):
        for path in ("/queue", "/", "/cluster"):
            for browser, secret in ((anns, "bobs-secret"), (bobs, "anns-secret")):
                assert secret not in (await browser.get(path)).text
                assert secret not in (await browser.live(path)).text
        assert "anns-secret" in (await anns.get("/queue")).text
        assert "bobs-secret" in (await bobs.live("/queue")).text
    assert _drawn_row.cache_info().hits  # so that it is this that was tried


async def test_each_is_told_in_their_own_tongue_and_zone(scene):
    browser, cookie = await browser_of(scene, "ann")

    async def queue(language, zone):
        return (await browser.get("/queue", cookie=f"fairy_page={cookie}; fairy_language={language}; fairy_zone={zone}")).text

    for _ in range(2):
        english, korean, far = await queue("en", "UTC"), await queue("ko", "UTC"), await queue("en", "Asia/Seoul")
        assert 'data-name="waits"' in english
        assert 'data-name="waits"' not in korean
        ends = NOW + timedelta(hours=2)
        assert f"<b>{ends:%H:%M}</b>" in english
        assert f"<b>{ends:%H:%M}</b>" not in far


async def test_what_changed_is_shown_as_it_is_now(scene):
    browser, _ = await browser_of(scene, "ann")
    assert "anns-secret" in (await browser.get("/queue")).text
    session = scene.house.book.named("ann", "anns-secret")
    await scene.stop(session)
    await scene.later(timedelta(seconds=3))
    assert "anns-secret" not in (await browser.get("/queue")).text
