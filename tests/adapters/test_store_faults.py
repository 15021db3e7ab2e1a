"""Locked, full, damaged, gone: a clear answer, and writing goes on by itself once it can."""
import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, event
from store_builders import NEVER_BEATS, a_session, a_store

from gpufairy.core.errors import BadInput, StoreUnavailable
from gpufairy.store import database
from gpufairy.store.store import Store


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


async def test_a_locked_file_is_said_to_be_locked_and_works_when_it_is_free(sqlite_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database, "BUSY_LIMIT_S", 0.05)
    async with a_store(sqlite_url) as store:
        other = sqlite3.connect(file_of(sqlite_url), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"fairy\.db is locked by another program"):
            await store.meta.put_once("a", "1")
        assert await store.meta.get("a") is None  # reading goes on
        other.execute("ROLLBACK")
        other.close()
        assert await store.meta.put_once("a", "2") == "2"


async def test_a_full_disk_has_its_own_sentence_and_writing_goes_on_when_there_is_room(sqlite_url: str):
    async with a_store(sqlite_url) as store:
        await store.meta.put_once("before", "kept")
        limit_pages(store, 1)
        with pytest.raises(StoreUnavailable, match="is full") as caught:
            await store.meta.put_once("big", "x" * 2_000_000)
        assert "Free some space" in caught.value.next_step
        limit_pages(store, 1_000_000)
        assert await store.meta.put_once("big", "y" * 2_000_000) == "y" * 2_000_000
        assert await store.meta.get("before") == "kept"


async def test_a_file_that_is_no_database_is_named_with_what_to_do(sqlite_url: str):
    file = file_of(sqlite_url)
    file.parent.mkdir()
    file.write_bytes(b"this was a database once " * 500)
    with pytest.raises(StoreUnavailable, match=rf"{file} is damaged") as caught:
        async with a_store(sqlite_url):
            pass
    assert "put the last backup in its place" in caught.value.next_step
    assert file.read_bytes().startswith(b"this was a database once")


async def test_a_damaged_page_is_a_clear_answer(sqlite_url: str):
    async with a_store(sqlite_url) as store:
        await store.sessions.add([a_session(f"s{i}") for i in range(500)], [])
    file = file_of(sqlite_url)
    content = bytearray(file.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 8] = b"\xff" * 8
    file.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="is damaged"):
        async with a_store(sqlite_url) as store:
            await store.sessions.live()


async def test_an_address_that_is_none_is_refused_without_showing_it():
    with pytest.raises(BadInput) as caught:
        async with a_store("mysql://mina:geheim@host/db"):
            pass
    assert "geheim" not in str(caught.value)
    with pytest.raises(BadInput):
        async with a_store("sqlite://"):
            pass


async def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        async with a_store(f"sqlite:///{tmp_path}/file/fairy.db"):
            pass


@pytest.mark.system
async def test_a_server_that_is_not_there_is_a_clear_answer_without_the_password(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="did not answer") as caught:
        async with a_store(f"postgresql://mina:geheim@/fairy?host={tmp_path}"):
            pass
    assert "geheim" not in str(caught.value)


@pytest.mark.system
async def test_reading_and_writing_go_on_after_the_backends_are_killed(postgres_url: str):
    async with a_store(postgres_url, times=NEVER_BEATS) as store:
        await store.meta.put_once("a", "1")
        with admin(postgres_url) as killer:
            kill_others(killer)
            assert await store.meta.get("a") == "1"
            kill_others(killer)
            answers = await asyncio.gather(*(store.meta.put_once(f"n{i}", "2") for i in range(20)))
            assert answers == ["2"] * 20


@pytest.mark.system
async def test_a_connection_lost_before_the_commit_is_written_on_the_second_try(postgres_url: str):
    async with a_store(postgres_url, times=NEVER_BEATS) as store:
        with admin(postgres_url) as killer, before_first_commit(store, lambda connection: kill_others(killer)):
            [session] = await store.sessions.add([a_session("a")], [])
        assert await store.sessions.live() == [session]


@pytest.mark.system
async def test_a_commit_whose_answer_was_lost_is_not_written_twice(postgres_url: str):
    async with a_store(postgres_url, times=NEVER_BEATS) as store:

        def commit_and_die(connection: Connection) -> None:
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("BEGIN")  # so that the store's own commit meets the dead connection
            kill_others(killer)

        with admin(postgres_url) as killer, before_first_commit(store, commit_and_die):
            [session] = await store.sessions.add([a_session("a")], [])
        assert await store.sessions.live() == [session]
        [later] = await store.sessions.add([a_session("b")], [])
        assert later.number == session.number + 1


@pytest.mark.system
async def test_a_commit_that_nobody_can_ask_about_is_not_called_unwritten(postgres_url: str, postgres_folder: Path):
    async with a_store(postgres_url, times=NEVER_BEATS) as store:
        name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
        other = f"postgresql://postgres@/postgres?host={postgres_folder}"

        def commit_and_die(connection: Connection) -> None:
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("BEGIN")
            elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            kill_others(killer)

        with admin(other) as elsewhere, admin(postgres_url) as killer:
            with before_first_commit(store, commit_and_die), pytest.raises(StoreUnavailable, match="not known whether this was written"):
                await store.meta.put_once("a", "1")
            elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert await store.meta.put_once("a", "2") == "1"


def limit_pages(store: Store, pages: int) -> None:
    with store._held.database.writing.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")


@contextmanager
def admin(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def kill_others(connection: psycopg.Connection) -> None:
    """With a time limit, so that they are gone when this returns."""
    mine = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    connection.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {mine}")


@contextmanager
def before_first_commit(store: Store, deed: Callable[[Connection], None]) -> Iterator[None]:
    commits: list[Connection] = []

    def at_commit(connection: Connection) -> None:
        commits.append(connection)
        if len(commits) == 1:
            deed(connection)

    event.listen(store._held.database.writing, "commit", at_commit)
    yield
    event.remove(store._held.database.writing, "commit", at_commit)
    assert commits
