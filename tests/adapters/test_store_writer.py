"""The writer: many wait, one commits, and nobody pays for a neighbour's fault."""
import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from sqlalchemy import Connection, event, insert
from store_builders import a_session, a_store, noted, placed

from gpufairy.core.errors import Conflict, StoreUnavailable
from gpufairy.store.store import Store
from gpufairy.store.tables import meta


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with a_store(store_url) as opened:
        yield opened


def put(name: str) -> object:
    return lambda connection: connection.execute(insert(meta), [{"name": name, "value": ""}])


async def test_many_writes_at_once_share_a_few_commits(store: Store):
    commits: list[Connection] = []
    event.listen(store._held.database.writing, "commit", commits.append)
    await asyncio.gather(*(store.meta.put_once(f"n{i}", "v") for i in range(300)))
    assert len(commits) <= 300 / 64 + 5


async def test_a_write_that_fails_leaves_its_neighbours_alone(store: Store):
    await store.sessions.add([a_session("taken")], [])
    names = ["a", "taken", "b", "taken", "c"]
    answers = await asyncio.gather(
        *(store.sessions.add([a_session(name, id=f"id{i}")], []) for i, name in enumerate(names)), return_exceptions=True
    )
    assert [isinstance(answer, Conflict) for answer in answers] == [False, True, False, True, False]
    assert [session.name for session in await store.sessions.live()] == ["taken", "a", "b", "c"]


async def test_a_broken_constraint_undoes_all_of_its_own_write_and_no_other(store: Store):
    def twice(connection: Connection) -> None:
        put("half")(connection)
        put("half")(connection)

    writer = store._held.writer
    answers = await asyncio.gather(writer.write(put("a")), writer.write(twice), writer.write(put("b")), return_exceptions=True)
    assert isinstance(answers[1], Conflict)
    assert [await store.meta.get(name) for name in ("a", "half", "b")] == ["", None, ""]


async def test_a_bug_in_one_write_reaches_its_caller_alone(store: Store):
    def bug(connection: Connection) -> None:
        put("by the bug")(connection)
        raise ZeroDivisionError

    writer = store._held.writer
    work = [put(f"n{i}") for i in range(5)] + [bug] + [put(f"m{i}") for i in range(5)]
    answers = await asyncio.gather(*map(writer.write, work), return_exceptions=True)
    assert [isinstance(answer, ZeroDivisionError) for answer in answers] == [False] * 5 + [True] + [False] * 5
    assert await store.meta.get("by the bug") is None
    assert [await store.meta.get(name) for name in ("n0", "m4")] == ["", ""]
    with pytest.raises(ZeroDivisionError):
        await writer.write(bug)
    await store.meta.put_once("afterwards", "fine")


async def test_of_many_who_save_the_same_session_one_wins(store: Store):
    [session] = await store.sessions.add([a_session("a")], [])
    changes = [noted(session, f"by {i}") for i in range(20)] + [placed(session)]
    took = await asyncio.gather(*(store.sessions.save([change]) for change in changes))
    winners = [change for changes_taken in took for change in changes_taken]
    assert len(winners) == 1
    assert await store.sessions.get(session.id) == winners[0].after


async def test_what_a_cancelled_caller_asked_for_is_written_and_others_are_served(store: Store):
    begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(connection: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(10)
        put("slow")(connection)

    asked = asyncio.create_task(store._held.writer.write(slow))
    await begun.wait()
    asked.cancel()
    may_end.set()
    await store.meta.put_once("next", "v")
    assert await store.meta.get("slow") == ""
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_closing_writes_what_was_asked_and_refuses_what_comes_later(store_url: str):
    async with a_store(store_url) as store:
        asked = [asyncio.create_task(store.meta.put_once(f"n{i}", "v")) for i in range(200)]
        await asyncio.sleep(0)  # lets each task ask
    assert await asyncio.gather(*asked) == ["v"] * 200
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.meta.put_once("late", "v")
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.meta.get("late")
