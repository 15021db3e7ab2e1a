"""Upgrades of a real older database: kept as it was before, brought up whole, or left as it was with the way back in words."""
import asyncio
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from backup_scene import a_folder
from store_builders import a_store

from gpufairy.core.errors import StoreUnavailable
from gpufairy.main.upgrade import checked
from gpufairy.main.upkeep import Upkeeping
from gpufairy.store import migrate, steps
from gpufairy.store.backup import list_backups
from gpufairy.store.backup_sqlite import schema_in
from gpufairy.store.database import open_database
from gpufairy.store.restore import restore_backup
from gpufairy.wire.config import Config

BROKEN = '''"""A step that does half of its work."""
from alembic import op
from sqlalchemy import Column, Text

revision = "9001"
down_revision = "{last}"


def upgrade() -> None:
    op.create_table("half_way", Column("name", Text, primary_key=True))
    op.execute("DELETE FROM users")
    op.execute("INSERT INTO no_such_table VALUES (1)")
'''


def old_database(data, form="0005"):
    """As the program of that time left it: its tables by the kept migrations, with a user and a session in them."""
    data.mkdir(mode=0o700)
    database = open_database(f"sqlite:///{data / 'fairy.db'}")
    with database.writing.begin() as connection:
        steps.upgrade(connection, form)
    database.dispose()
    with closing(sqlite3.connect(data / "fairy.db")) as connection, connection:
        connection.execute("INSERT INTO users (name, role, created_at, disabled) VALUES ('mina', 'admin', 0, 0)")
        connection.execute("INSERT INTO meta VALUES ('program_version', '0.0.5')")
    return data


def upkeeping(data):
    return Upkeeping(data, Config(), None)


async def start(data):
    async with a_store(f"sqlite:///{data / 'fairy.db'}", before_upgrade=upkeeping(data).before_upgrade) as store:
        return [user.name for user in await store.people.users()]


async def test_an_older_database_is_kept_before_it_is_brought_up(tmp_path):
    data = old_database(tmp_path / "data")
    assert await start(data) == ["mina"]
    assert schema_in(data / "fairy.db") == migrate.KNOWN[-1]
    [kept] = list_backups(data / "backups")
    assert kept.path.name.startswith("before-upgrade-0.0.5-")
    assert (kept.manifest.schema, kept.manifest.counts["users"]) == ("0005", 1)


async def test_the_way_back_leads_to_the_older_form(tmp_path):
    data = old_database(tmp_path / "data")
    await start(data)
    [kept] = list_backups(data / "backups")
    await asyncio.to_thread(restore_backup, kept.path, upkeeping(data)._places.sources, datetime.now(UTC))
    assert schema_in(data / "fairy.db") == "0005"


async def test_a_new_or_current_database_makes_no_backup(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    await start(data)
    await start(data)
    assert list_backups(data / "backups") == []


@pytest.fixture
def broken_step(tmp_path, monkeypatch):
    """A newer program whose last step fails half-way."""
    folder = tmp_path / "migrations"
    shutil.copytree(steps.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "rev_9001_broken.py").write_text(BROKEN.format(last=migrate.KNOWN[-1]))
    monkeypatch.setattr(steps, "MIGRATIONS", folder)
    monkeypatch.setattr(migrate, "KNOWN", (*migrate.KNOWN, "9001"))


@pytest.mark.usefixtures("broken_step")
async def test_an_upgrade_that_fails_leaves_the_database_as_it_was_and_says_how_to_go_back(tmp_path):
    data = old_database(tmp_path / "data")
    with pytest.raises(StoreUnavailable) as told:
        await start(data)
    assert "from form 0005 to 9001 failed, so it is as it was" in told.value.detail
    assert "Start the version that you had before" in told.value.next_step
    assert str(data / "backups" / "before-upgrade-0.0.5-") in told.value.next_step
    assert schema_in(data / "fairy.db") == "0005"
    with closing(sqlite3.connect(data / "fairy.db")) as connection:
        assert connection.execute("SELECT name FROM users").fetchall() == [("mina",)]
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half_way'").fetchone() is None


async def test_without_room_for_the_backup_nothing_is_upgraded(tmp_path):
    data = old_database(tmp_path / "data")
    (data / "backups").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="could not be written"):
        await start(data)
    assert schema_in(data / "fairy.db") == "0005"


async def test_a_newer_database_is_refused_by_an_older_program(tmp_path):
    data = old_database(tmp_path / "data")
    with closing(sqlite3.connect(data / "fairy.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreUnavailable) as told:
        await start(data)
    assert "made by a newer gpufairy" in told.value.detail
    assert "fairy restore" in told.value.next_step


def test_a_check_tries_it_on_a_copy_and_changes_nothing(tmp_path):
    data = old_database(tmp_path / "data")
    before = (data / "fairy.db").read_bytes()
    found = checked(data / "fairy.db")
    assert (found.found, found.known, found.made_by, found.tried) == ("0005", migrate.KNOWN[-1], "0.0.5", True)
    assert found.steps == len(migrate.KNOWN) - 5
    assert (data / "fairy.db").read_bytes() == before
    assert not list(data.glob("fairy-upgrade-*"))


def test_a_check_of_the_current_form_finds_nothing_to_do(tmp_path):
    assert checked(a_folder(tmp_path / "data").data / "fairy.db").steps == 0


@pytest.mark.usefixtures("broken_step")
def test_a_check_tells_of_the_step_that_would_fail(tmp_path):
    data = old_database(tmp_path / "data")
    with pytest.raises(StoreUnavailable, match="no_such_table"):
        checked(data / "fairy.db")
    assert schema_in(data / "fairy.db") == "0005"


