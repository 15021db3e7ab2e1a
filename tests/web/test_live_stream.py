"""The stream that open pages follow: each is told of what it is about, at once and of nobody else's; many are told one after the other."""
import asyncio
from dataclasses import dataclass

import pytest
from house_scene import ANN, Scene, a_house
from session_browser import a_browser
from starlette.requests import Request

from builders import a_session
from gpufairy.control.bell import CHANGES_KEPT, Bells, all_of
from gpufairy.control.registry import PAGE_SCOPE, Caller
from gpufairy.core.lifecycle import Phase
from gpufairy.web import live
from gpufairy.web.live import followed_by, retry_s, spread_s, stream

SOON_S = 5


@pytest.fixture
async def scene(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "LEAST_GAP_S", 0)
    async with a_house(tmp_path) as found:
        yield found


@dataclass
class Follower:
    scene: Scene
    cookie: str
    query: str = ""

    def __post_init__(self):
        scope = {"type": "http", "headers": [(b"cookie", f"fairy_page={self.cookie}".encode())], "query_string": self.query.encode()}
        request = Request(scope)
        request.state.caller = Caller(ANN, PAGE_SCOPE)
        self.events = stream(self.scene.house, request)

    async def hears(self) -> str | None:
        """None: the stream has ended."""
        async with asyncio.timeout(SOON_S):
            told = await anext(self.events, None)
        return None if told is None else told.decode().partition("event: ")[2].split("\n")[0]


async def follower(scene, query=""):
    await scene.house.registry.ensure_user("ann")
    token, cookie = await scene.house.registry.create_token("ann", "browser", PAGE_SCOPE, None)
    found = Follower(scene, cookie, query)
    assert await found.hears() == "hello"
    return found, token


def of_ann(scene, seen=None):
    return f"of={all_of('ann')}&seen={scene.house.bells.changes if seen is None else seen}"


async def test_a_page_about_my_own_sessions_is_told_of_them_at_once_and_of_others_with_the_next_tick(scene, monkeypatch):
    page, _ = await follower(scene, of_ann(scene))
    await scene.submit(name="mine")
    assert await page.hears() == "changed"
    monkeypatch.setattr(live, "TICK_S", 0.01)
    scene.house.bells.sessions_changed(["another"], ["bob"])
    assert await page.hears() == "tick"


async def test_a_page_about_everybody_is_told_of_anybodys(scene):
    page, _ = await follower(scene, f"of=&seen={scene.house.bells.changes}")
    scene.house.bells.sessions_changed(["another"], ["bob"])
    assert await page.hears() == "changed"


async def test_a_page_about_a_session_is_told_of_that_one(scene, monkeypatch):
    session = await scene.submit(name="mine")
    page, _ = await follower(scene, f"of={session.id}&seen={scene.house.bells.changes}")
    scene.house.bells.sessions_changed([session.id])
    assert await page.hears() == "changed"
    monkeypatch.setattr(live, "TICK_S", 0.01)
    await scene.submit(name="other")
    assert await page.hears() == "tick"


async def test_what_changed_between_the_making_of_a_page_and_its_stream_is_told_at_once(scene):
    before = scene.house.bells.changes
    await scene.submit(name="mine")
    page, _ = await follower(scene, of_ann(scene, before))
    assert await page.hears() == "changed"


async def test_the_page_itself_says_what_it_follows_and_how_much_it_has_seen(scene):
    browser = await a_browser(scene)
    await scene.submit(name="mine")
    seen = scene.house.bells.changes
    session = scene.house.book.named("ann", "mine")
    follows = {path: f'data-live="of={of}&seen={seen}"' for path, of in (("/", "of%3Aann"), ("/queue", ""), ("/sessions/mine", session.id))}
    for path, words in follows.items():
        assert words in (await browser.get(path)).text


async def test_nobody_is_told_when_anothers_session_changes_unless_they_are_an_admin(scene):
    session = a_session("theirs", owner="bob", phase=Phase.RUNNING)
    scene.house.book.put(session)
    ann = Caller(ANN, PAGE_SCOPE)
    for wanted in (session.id, all_of("bob"), "people", "gateway", "no such thing"):
        assert followed_by(scene.house, ann, {"of": wanted}) == all_of("ann")
    assert followed_by(scene.house, ann, {}) is None


async def test_a_stream_ends_when_its_reader_is_signed_out(scene):
    page, token = await follower(scene, of_ann(scene))
    await scene.house.registry.revoke_token(token.id)
    scene.house.bells.sessions_changed([], ["ann"])
    assert await page.hears() is None


async def test_nonsense_in_the_address_counts_for_nothing(scene, monkeypatch):
    monkeypatch.setattr(live, "TICK_S", 0.01)
    for seen in ("-1", "x", "9" * 500, "%00", "١٢"):
        page, _ = await follower(scene, f"of={all_of('ann')}&seen={seen}")
        assert await page.hears() in ("tick", "changed")


def test_one_page_is_told_at_once_and_many_one_after_the_other():
    assert spread_s(1) == 0
    assert spread_s(300) == live.TICK_S
    assert 1 < spread_s(90) < 2


def test_pages_that_lost_the_server_come_back_at_different_moments():
    found = sorted(retry_s(300) for _ in range(300))
    assert found[0] >= live.RETRY_S
    assert found[-1] <= live.RETRY_S + 3
    most_at_once = max(sum(at <= one < at + 0.1 for one in found) for at in found)
    assert most_at_once < 30  # of 300, in a tenth of a second
    assert max(retry_s(100_000) for _ in range(100)) <= live.RETRY_S + live.LONGEST_RETRY_S


def test_changes_that_are_too_many_to_remember_are_supposed():
    bells = Bells()
    bells.sessions_changed(["first"])
    then = bells.changes
    assert not bells.changed_since("first", then)
    assert not bells.changed_since("never", then)
    for number in range(CHANGES_KEPT + 1):
        bells.sessions_changed([str(number)])
    assert bells.changed_since("first", then)
    assert len(bells._changed_at) == CHANGES_KEPT
    assert bells.changed_since("first", bells.changes + 5)  # counted by another server
