"""One server writes: a second is refused or waits, and one that lost the lease writes nothing."""
import asyncio
import os
from pathlib import Path

import pytest
from sqlalchemy import text
from store_builders import HALF_LIFE, NEVER_BEATS, QUICK, a_session, a_store

from gpufairy.core.errors import Conflict, NotLeader, StoreUnavailable
from gpufairy.store.leader import LeaseTimes, read_leader
from gpufairy.store.store import Store

needs_postgres = pytest.mark.system


async def test_a_second_server_on_the_same_file_is_refused_and_told_who_has_it(sqlite_url: str):
    async with a_store(sqlite_url, "server-a") as first:
        with pytest.raises(Conflict, match=f"pid {os.getpid()}, server-a"):
            await asyncio.wait_for(open_as("server-b", sqlite_url), 5)
        await first.meta.put_once("still", "writes")
    async with a_store(sqlite_url, "server-b") as second:
        assert await second.meta.get("still") == "writes"


async def test_a_refused_server_does_not_free_the_lock_of_the_first(sqlite_url: str):
    async with a_store(sqlite_url):
        for _ in range(2):
            with pytest.raises(Conflict):
                await open_as("server-b", sqlite_url)


async def test_files_are_for_their_owner_alone(sqlite_url: str, tmp_path: Path):
    async with a_store(sqlite_url) as store:
        await store.meta.put_once("a", "b")
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "data").iterdir()}
    assert modes == dict.fromkeys(["fairy.db", "fairy.db-wal", "fairy.db-shm", "fairy.db.lock"], 0o600)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


async def test_a_lock_that_cannot_be_opened_says_so(sqlite_url: str, tmp_path: Path):
    (tmp_path / "data" / "fairy.db.lock").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match=r"fairy\.db\.lock cannot be opened"):
        await open_as("server-a", sqlite_url)


@needs_postgres
async def test_a_second_server_waits_for_the_lease_and_goes_on_where_the_first_closed(postgres_url: str):
    first = await open_as("server-a", postgres_url)
    waiting = asyncio.create_task(open_as("server-b", postgres_url))
    [session] = await first.sessions.add([a_session("one")], [])
    await beats_seen(first, round(2 * QUICK.silent_s / QUICK.beat_s))
    assert not waiting.done()
    await first.close()
    second = await asyncio.wait_for(waiting, 5)
    [later] = await second.sessions.add([a_session("two")], [])
    assert later.number == session.number + 1
    await second.close()


@needs_postgres
async def test_who_will_not_wait_is_told_who_has_the_lease(postgres_url: str):
    async with a_store(postgres_url, "server-a"):
        with pytest.raises(Conflict, match="server-a"):
            await asyncio.wait_for(open_as("server-b", postgres_url, wait=False), 5)


@needs_postgres
async def test_who_will_not_wait_still_takes_the_place_of_the_dead(postgres_url: str):
    async with a_store(postgres_url, "dead", NEVER_BEATS):
        second = await asyncio.wait_for(open_as("server-b", postgres_url, wait=False), 5)
        await second.close()


@needs_postgres
async def test_a_paused_leader_that_wakes_writes_nothing(postgres_url: str):
    async with a_store(postgres_url, "paused", NEVER_BEATS) as paused:
        await paused.meta.put_once("before", "the pause")
        async with a_store(postgres_url, "successor", QUICK) as successor:
            answers = await asyncio.gather(*(paused.meta.put_once(f"late{i}", "v") for i in range(5)), return_exceptions=True)
            assert all(isinstance(answer, NotLeader) and "successor" in answer.detail for answer in answers)
            assert [await successor.meta.get(name) for name in ("before", "late0")] == ["the pause", None]
            await successor.meta.put_once("after", "v")
        with pytest.raises(NotLeader):
            await paused.meta.put_once("later still", "v")


@needs_postgres
async def test_all_who_want_the_lease_get_it_one_after_the_other(postgres_url: str):
    leading: list[str] = []

    async def serve(name: str) -> int:
        store = await open_as(name, postgres_url)
        leading.append(name)
        assert leading == [name]
        [session] = await store.sessions.add([a_session(name)], [])
        leading.remove(name)
        await store.close()
        return session.number

    numbers = await asyncio.wait_for(asyncio.gather(*(serve(f"server{i}") for i in range(8))), 60)
    assert sorted(numbers) == list(range(1, 9))


@needs_postgres
async def test_the_lease_does_not_hang_on_the_databases_clock(postgres_url: str):
    """There is no time in it: what is written is an epoch and a count of beats."""
    async with a_store(postgres_url) as store:
        row = await store._held.reader.read(lambda connection: connection.execute(text("SELECT * FROM leader")).mappings().one())
        assert set(row) == {"id", "holder", "epoch", "beat"}


async def open_as(holder: str, url: str, times: LeaseTimes = QUICK, wait: bool = True) -> Store:
    async with asyncio.timeout(60):
        return await Store.open(url, holder=holder, half_life=HALF_LIFE, times=times, wait_for_lease=wait)


async def beats_seen(store: Store, count: int) -> None:
    """Until the idle leader has shown so often that it lives."""
    first = await beat_of(store)
    async with asyncio.timeout(30):
        while await beat_of(store) < first + count:
            pass


async def beat_of(store: Store) -> int:
    return (await store._held.reader.read(read_leader)).beat
