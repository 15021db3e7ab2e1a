"""Streams over a whole house: they miss nothing, wait for nothing that cannot come, and end with their reader's rights."""
import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from house_scene import Scene, a_house

from gpufairy.api.follow import event_stream
from gpufairy.control import follow
from gpufairy.control.bell import Bells, rung
from gpufairy.control.converge import converge
from gpufairy.control.follow import all_logs, changed, while_allowed
from gpufairy.control.place import place_waiting
from gpufairy.core.lifecycle import Phase

SOON_S = 5  # far below what a missed bell costs


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with a_house(tmp_path) as made:
        yield made


async def whole(chunks: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(SOON_S):
        return b"".join([chunk async for chunk in chunks])


class LateEvents:
    """Events of which one is written just after it was asked for them."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._events, self._late = scene, scene.house.store.events, True

    async def page(self, **asked: object) -> list[object]:
        found = await self._events.page(**asked)
        if self._late:
            self._late = False
            await self._scene.submit(name="late")
        return found


async def test_an_event_between_the_look_and_the_wait_is_told_at_once(scene: Scene):
    scene.house.store.events = LateEvents(scene)
    stream = event_stream(scene.house, None, 0)
    assert await anext(stream) == b": hello\n\n"
    async with asyncio.timeout(SOON_S):
        assert b'"session": "late"' in await anext(stream)
    await stream.aclose()


async def test_a_bell_rung_before_the_wait_ends_it_and_nobody_listens_for_ever():
    bells = Bells()
    with bells.listen("a") as own, bells.listen("b") as others, bells.listen(None) as anybodys:
        bells.sessions_changed(["a"])
        assert [await rung(bell, 0) for bell in (own, others, anybodys)] == [True, False, True]
    assert not bells._listeners


async def test_a_long_poll_answers_at_once_when_it_comes_too_late(scene: Scene):
    before = await scene.submit()
    await scene.rest()
    async with asyncio.timeout(SOON_S):
        assert (await changed(scene.house, before, 60)).revision > before.revision


async def test_an_offset_counts_over_all_attempts(scene: Scene):
    session = await scene.submit(command=["sh", "-c", "echo one; exit 1"], retry=1)
    await scene.rest()
    await scene.later(timedelta(hours=1))
    assert ((await scene.now(session)).attempt, (await scene.now(session)).phase) == (2, Phase.ENDED)
    for begin, rest in ((0, b"one\none\n"), (2, b"e\none\n"), (4, b"one\n"), (6, b"e\n"), (8, b"")):
        for going_on in (False, True):
            assert await whole(all_logs(scene.house, session.id, going_on, begin)) == rest, begin


async def test_following_one_attempt_ends_while_its_session_waits_to_be_tried_again(scene: Scene):
    session = await scene.submit(command=["sh", "-c", "echo one; exit 1"], retry=1)
    await scene.rest()
    assert (await scene.now(session)).phase is Phase.QUEUED
    async with asyncio.timeout(SOON_S):
        assert await whole(all_logs(scene.house, session.id, True, this_attempt=True)) == b"one\n"


async def test_following_a_session_whose_launch_was_refused_ends_with_it(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow, "LOOK_S", 0.01)
    scene.containers.refuse_next, scene.containers.delay = ["no"] * 100, timedelta(seconds=0.05)
    session = await scene.submit()
    await place_waiting(scene.house)
    await converge(scene.house)
    assert (await scene.now(session)).phase is Phase.STARTING
    following = asyncio.create_task(whole(all_logs(scene.house, session.id, True)))
    await scene.house.deeds.settled()
    await scene.stop(session)
    await scene.rest()
    assert (await scene.now(session)).phase is Phase.ENDED
    assert await following == b""


async def test_a_followed_log_goes_on_over_a_silence_and_ends_with_the_session(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow, "LOOK_S", 0.01)
    session = await scene.submit()
    await scene.rest()
    (workload,) = scene.containers.alive()
    chunks = while_allowed(all_logs(scene.house, session.id, True), lambda: True, scene.house.bells.leaving)
    first = asyncio.ensure_future(anext(chunks))
    assert await asyncio.wait([first], timeout=0.1) == (set(), {first})
    scene.containers.write(workload, b"said\n")
    assert await first == b"said\n"
    scene.containers.exit(workload, 0)
    await scene.rest()
    assert await whole(chunks) == b""


async def test_a_stream_ends_with_its_readers_rights_and_so_does_what_it_reads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow, "LOOK_S", 0.01)
    rights, closed = [True], []

    async def silent() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    stream = while_allowed(silent(), lambda: rights[0], asyncio.Event())
    assert await anext(stream) == b"first"
    rights[0] = False
    assert await whole(stream) == b""
    assert closed == [True]


async def test_what_comes_after_the_rights_are_gone_is_not_passed_on():
    async def busy() -> AsyncIterator[bytes]:
        while True:
            yield b"more"

    rights = iter([True, True, False])
    assert await whole(while_allowed(busy(), lambda: next(rights), asyncio.Event())) == b"moremore"
