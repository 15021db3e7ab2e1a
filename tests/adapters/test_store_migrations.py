"""The tables' history ends where tables.py stands, and a migration that failed half-way leaves nothing behind."""
import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from store_builders import HALF_LIFE, a_session, a_store

from gpufairy.core.errors import StoreUnavailable
from gpufairy.store import migrate, steps, tables
from gpufairy.store.database import open_database


def on(url: str, statement: str) -> None:
    opened = open_database(url)
    with opened.writing.begin() as connection:
        connection.execute(text(statement))
    opened.dispose()


def test_the_known_versions_are_those_of_the_scripts():
    scripts = ScriptDirectory(str(steps.MIGRATIONS))
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(migrate.KNOWN)


async def test_migrating_an_empty_database_gives_the_tables_that_the_code_expects(store_url: str):
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"target_metadata": tables.metadata})
        return compare_metadata(context, tables.metadata)

    async with a_store(store_url) as store:
        assert await store._held.reader.read(differences) == []


async def test_a_second_start_changes_nothing(store_url: str):
    async with a_store(store_url) as store:
        [session] = await store.sessions.add([a_session("a")], [])
    async with a_store(store_url) as store:
        assert await store.sessions.live() == [session]


async def test_a_migration_that_fails_half_way_leaves_nothing_and_runs_again(store_url: str):
    on(store_url, "CREATE TABLE meta (in_the_way INTEGER)")
    with pytest.raises(StoreUnavailable):
        async with a_store(store_url):
            pass
    opened = open_database(store_url)
    with opened.reading.connect() as connection:
        assert sorted(inspect(connection).get_table_names()) == ["leader", "meta"]
    opened.dispose()
    on(store_url, "DROP TABLE meta")
    async with asyncio.timeout(30), a_store(store_url) as store:
        await store.meta.put_once("a", "b")


async def test_a_database_from_a_newer_version_is_left_alone(store_url: str):
    async with a_store(store_url) as store:
        await store.meta.put_once("half-life", str(HALF_LIFE))
    on(store_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreUnavailable, match="form 9999, made by a newer gpufairy"):
        async with a_store(store_url):
            pass


async def test_pages_of_one_owner_use_the_small_indexes(sqlite_url: str):
    """Else a page of what runs reads the whole queue or the whole past first."""
    plan = "EXPLAIN QUERY PLAN SELECT * FROM sessions WHERE owner = 'mina' AND {} ORDER BY number DESC LIMIT 9"
    async with a_store(sqlite_url) as store:
        for condition, index in ((tables.LIVE, "sessions_live_owner"), (tables.HOLDING, "sessions_holding")):
            statement = text(plan.format(condition))
            rows = await store._held.reader.read(lambda connection, asked=statement: connection.execute(asked).all())
            assert [row.detail for row in rows] == [f"SEARCH sessions USING INDEX {index} (owner=?)"]
