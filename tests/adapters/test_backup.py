"""Backups of real databases: whole, private, read back; and the way back, which believes nothing that it is given."""
import asyncio
import os
import shutil
import sqlite3
import stat
import tarfile
import threading
import time
from contextlib import closing
from functools import partial

import psycopg
import pytest
from backup_scene import AT, a_backup, a_folder, fill, forged, members, with_manifest
from store_builders import a_session, a_store

from gpufairy.core.errors import BadInput, Conflict, StoreUnavailable
from gpufairy.core.series import Kind
from gpufairy.store import backup as backup_module
from gpufairy.store.backup import STAGING, Sources, list_backups, make_backup, verify
from gpufairy.store.backup_sqlite import look_inside
from gpufairy.store.leader import FileLock
from gpufairy.store.restore import check_backup, restore_backup

pytestmark = pytest.mark.slow


@pytest.fixture
def sources(tmp_path):
    return a_folder(tmp_path / "data")


def rows(file, table):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_a_backup_holds_database_settings_and_keys_and_says_so(sources, tmp_path):
    made = a_backup(sources, tmp_path / "kept")
    found = members(made.path)
    assert next(iter(found)) == "manifest.json"
    assert set(found) == {"manifest.json", "fairy.db", "settings/fairy.toml", "data/server-id", "data/apps.json", "data/ssh/host_ed25519", "data/ssh/host_rsa"}
    assert made.manifest.counts["sessions"] == 3
    assert made.manifest.counts["users"] == 1
    assert [one.path for one in list_backups(tmp_path / "kept")] == [made.path]


def test_a_backup_is_for_its_owner_alone_and_leaves_nothing_beside_it(sources, tmp_path):
    made = a_backup(sources, tmp_path / "kept")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["fairy-1.tar.gz"]


async def a_write_s(store):
    began = time.monotonic()
    await store.meta.put("tick", str(began))
    return time.monotonic() - began


async def test_writers_do_not_wait_for_a_backup(tmp_path):
    """The server writes on while another process reads a database of some size, and the copy is of one moment."""
    url, data = f"sqlite:///{tmp_path / 'fairy.db'}", tmp_path
    async with a_store(url) as store:
        for lot in range(20):
            await store.sessions.add([a_session(f"s{lot}-{n}") for n in range(200)], [])
        made, waits, alone = [], [], sorted([await a_write_s(store) for _ in range(20)])
        thread = threading.Thread(target=lambda: made.append(make_backup(Sources(url, data), tmp_path / "kept", name="fairy-1", why="", now=AT, history=False)))
        thread.start()
        while thread.is_alive():
            waits.append(await a_write_s(store))
        thread.join()
    assert made[0].manifest.counts["sessions"] == 4000
    assert len(waits) > 3
    usual_s = alone[len(alone) // 2]  # of this disk, now
    assert sorted(waits)[len(waits) // 2] < max(0.05, 4 * usual_s)


async def test_readings_by_the_hour_are_always_in_it_and_fine_ones_when_asked(tmp_path):
    url = f"sqlite:///{tmp_path / 'fairy.db'}"
    await fill(url)
    with closing(sqlite3.connect(tmp_path / "fairy.db")) as connection, connection:
        connection.execute("INSERT INTO reading_subjects VALUES (1, ?, 's', 'n')", (Kind.SESSION,))
        connection.executemany("INSERT INTO reading_blocks VALUES (?, 1, ?, 0, x'00')", [(1, 10), (2, 60), (7, 3600)])
        connection.execute("INSERT INTO reading_reports (number, node, at, arrived_at, body) VALUES (9, 1, 1, 1, x'00')")
    plain = a_backup(Sources(url, tmp_path), tmp_path / "kept")
    whole = a_backup(Sources(url, tmp_path), tmp_path / "kept", history=True, name="fairy-2")
    assert (plain.manifest.counts["reading_blocks"], plain.manifest.counts["reading_reports"]) == (1, 0)
    assert (whole.manifest.counts["reading_blocks"], whole.manifest.counts["reading_reports"]) == (3, 1)
    verify(plain.path, tmp_path / "out")
    with closing(sqlite3.connect(tmp_path / "out" / "fairy.db")) as connection:  # numbers are never given twice, here neither
        assert connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'reading_reports'").fetchone() == (9,)


def test_a_copy_that_lost_rows_gets_no_name(sources, tmp_path, monkeypatch):
    def worse(file):
        found = look_inside(file)
        found.counts["users"] += file.name == "database"
        return found

    monkeypatch.setattr(backup_module, "look_inside", worse)
    with pytest.raises(BadInput, match="has 1 rows of users, not 2"):
        a_backup(sources, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_in_words(sources, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="could not be written to"):
        a_backup(sources, tmp_path / "file" / "below")


def test_what_a_killed_backup_left_is_removed_after_a_day(sources, tmp_path):
    old, new = tmp_path / "kept" / f"{STAGING}old", tmp_path / "kept" / f"{STAGING}new"
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (1, 1))
    a_backup(sources, tmp_path / "kept")
    assert not old.exists()
    assert new.exists()


def test_files_that_are_no_backups_are_not_listed_and_damaged_ones_come_last(sources, tmp_path):
    made = a_backup(sources, tmp_path / "kept")
    (tmp_path / "kept" / "notes.txt").write_text("")
    (tmp_path / "kept" / "fairy-0.tar.gz").write_bytes(made.path.read_bytes()[:40])
    found = list_backups(tmp_path / "kept")
    assert [one.path.name for one in found] == ["fairy-1.tar.gz", "fairy-0.tar.gz"]
    assert found[1].manifest is None
    assert found[1].trouble


def test_what_was_destroyed_comes_back_and_what_was_there_is_kept_aside(sources, tmp_path):
    made = a_backup(sources, tmp_path / "kept")
    (sources.data / "fairy.db").write_bytes(b"damaged")
    (sources.data / "fairy.db-wal").write_bytes(b"of another database")
    (sources.data / "ssh" / "host_rsa").unlink()
    (sources.data / "server-id").write_text("another")
    sources.settings_file.write_text("[policy]\n")
    done = restore_backup(made.path, sources, AT)
    assert rows(sources.data / "fairy.db", "sessions") == 3
    assert (sources.data / "ssh" / "host_rsa").read_text() == "PRIVATE RSA"
    assert stat.S_IMODE((sources.data / "ssh" / "host_rsa").stat().st_mode) == 0o600
    assert (sources.data / "server-id").read_text() == "0123456789ab"
    assert not (sources.data / "fairy.db-wal").exists()
    assert (done.aside / "fairy.db").read_bytes() == b"damaged"
    assert (done.aside / "fairy.db-wal").read_bytes() == b"of another database"
    assert (done.aside / "server-id").read_text() == "another"
    assert done.settings.read_text() == "[policy]\nhalf_life = '3d'\n"
    assert sources.settings_file.read_text() == "[policy]\n"
    assert done.waiting == 1
    assert not list(sources.data.glob(".restoring-*"))


def test_a_backup_goes_to_a_fresh_machine(sources, tmp_path):
    made = a_backup(sources, tmp_path / "kept")
    fresh = Sources(f"sqlite:///{tmp_path}/fresh/fairy.db", tmp_path / "fresh")
    done = restore_backup(made.path, fresh, AT)
    assert done.aside is None
    assert rows(tmp_path / "fresh" / "fairy.db", "users") == 1


def test_a_running_server_is_not_restored_over(sources, tmp_path):
    made = a_backup(sources, tmp_path / "kept")
    before = (sources.data / "fairy.db").read_bytes()
    lock = FileLock(sources.sqlite_file, "gpu01 at http://gpu01:8420")
    with pytest.raises(Conflict, match=r"in use by pid .* gpu01"):
        restore_backup(made.path, sources, AT)
    lock.release()
    assert (sources.data / "fairy.db").read_bytes() == before


def test_a_check_changes_nothing(sources, tmp_path):
    made = a_backup(sources, tmp_path / "kept")
    before = {path: path.read_bytes() for path in sources.data.rglob("*") if path.is_file()}
    assert check_backup(made.path, sources.data).manifest == made.manifest
    assert {path: path.read_bytes() for path in sources.data.rglob("*") if path.is_file()} == before


def refused(archive, sources, words):
    before = {path: path.read_bytes() for path in sources.data.rglob("*") if path.is_file()}
    with pytest.raises(BadInput, match=words):
        restore_backup(archive, sources, AT)
    assert {path: path.read_bytes() for path in sources.data.rglob("*") if path.is_file()} == before


def test_a_newer_backup_is_refused_in_words(sources, tmp_path):
    newer = partial(with_manifest, schema="9999", version="9.0.0")
    archive = forged(a_backup(sources, tmp_path / "kept").path, tmp_path / "f.tar.gz", change=newer)
    refused(archive, sources, r"form 9999, made by gpufairy 9\.0\.0; this one knows up to")


def test_an_archive_cut_short_anywhere_is_refused(sources, tmp_path):
    whole = a_backup(sources, tmp_path / "kept").path.read_bytes()
    for part in (0, 1, 20, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        (tmp_path / "cut.tar.gz").write_bytes(whole[:part])
        refused(tmp_path / "cut.tar.gz", sources, "cannot be read|does not begin|ends before")


def test_an_archive_with_a_flipped_bit_is_refused_unless_it_still_says_the_very_same(sources, tmp_path):
    """Among long runs of zeros a packer can say one thing in two ways: then nothing was lost."""
    archive = a_backup(sources, tmp_path / "kept").path
    whole, inside, noticed = archive.read_bytes(), members(archive), 0
    for number, at in enumerate(range(12, len(whole), max(1, len(whole) // 25))):
        (tmp_path / "bad.tar.gz").write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            verify(tmp_path / "bad.tar.gz", tmp_path / f"out-{number}")
        except BadInput:
            noticed += 1
        else:
            assert members(tmp_path / "bad.tar.gz") == inside
    assert noticed > 10


def test_a_file_that_was_exchanged_is_noticed(sources, tmp_path):
    archive = a_backup(sources, tmp_path / "kept").path
    refused(forged(archive, tmp_path / "f.tar.gz", change=lambda name, body: b"X" * len(body) if name == "data/server-id" else body), sources, "was changed: data/server-id")
    refused(forged(archive, tmp_path / "f.tar.gz", change=lambda name, body: body + b"X" if name == "fairy.db" else body), sources, "not as its manifest says")
    refused(forged(archive, tmp_path / "f.tar.gz", change=lambda name, body: None if name == "fairy.db" else body), sources, "ends before fairy.db")
    refused(forged(archive, tmp_path / "f.tar.gz", change=lambda name, body: None if name == "manifest.json" else body), sources, "does not begin")


@pytest.mark.parametrize("name", ["../escaped", "/tmp/fairy-escaped", "data/../../escaped", "data/ssh/authorized_keys", "fairy.db-wal"])
def test_no_archive_writes_outside_its_list(sources, tmp_path, name):
    info = tarfile.TarInfo(name)
    info.size = 4
    archive = forged(a_backup(sources, tmp_path / "kept").path, tmp_path / "f.tar.gz", extra=(info, b"evil"))
    refused(archive, sources, "not as its manifest says")
    assert not list(tmp_path.rglob("*escaped*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_devices_and_folders_in_an_archive_are_refused(sources, tmp_path, kind):
    link = tarfile.TarInfo("data/server-id")
    link.type, link.linkname = kind, "/etc/passwd"
    without = forged(a_backup(sources, tmp_path / "kept").path, tmp_path / "f.tar.gz", change=lambda name, body: None if name == "data/server-id" else body, extra=(link, b""))
    refused(without, sources, "not as its manifest says")


def test_a_database_that_is_damaged_inside_is_refused(tmp_path):
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
    with pytest.raises(BadInput, match="no database that can be read"):
        look_inside(tmp_path / "x.db")


@pytest.mark.system
async def test_postgresql_is_dumped_counted_and_brought_back(postgres_url, tmp_path):
    if shutil.which("pg_dump") is None:
        pytest.skip("no pg_dump: apt-get install postgresql-client")
    await fill(postgres_url)
    (tmp_path / "data").mkdir()
    sources = Sources(postgres_url, tmp_path / "data")
    made = a_backup(sources, tmp_path / "kept")
    assert made.manifest.database == "database.pgdump"
    assert made.manifest.counts["sessions"] == 3
    async with a_store(postgres_url) as store:
        await store.sessions.add([a_session("newer")], [])
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DELETE FROM users")
    done = await asyncio.to_thread(restore_backup, made.path, sources, AT)
    assert done.manifest.schema
    async with a_store(postgres_url) as store:
        assert len(await store.sessions.live()) == 3
        assert [user.name for user in await store.people.users()] == ["mina"]


@pytest.mark.system
async def test_a_damaged_dump_is_refused(postgres_url, tmp_path):
    if shutil.which("pg_dump") is None:
        pytest.skip("no pg_dump: apt-get install postgresql-client")
    await fill(postgres_url)
    made = a_backup(Sources(postgres_url, tmp_path), tmp_path / "kept")
    whole = made.path.read_bytes()
    made.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput):
        verify(made.path, tmp_path / "out")


async def test_without_pg_dump_the_way_to_get_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput) as told:
        a_backup(Sources("postgresql://nobody@127.0.0.1:1/none", tmp_path), tmp_path / "kept")
    assert "pg_dump is not on this machine" in told.value.detail
    assert "apt-get install postgresql-client" in told.value.next_step

