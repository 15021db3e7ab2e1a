"""The way back: a backup is unpacked and proved beside the files, and only then put in their place. What was there is kept aside.

Homes, logs, results and what runs are not touched: running sessions are found again by their labels.
"""
import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpufairy.core import failpoints
from gpufairy.core.backup_manifest import DATA, KEPT, SETTINGS, SQLITE, Manifest
from gpufairy.core.errors import BadInput, StoreUnavailable
from gpufairy.store.backup import Sources, sync, verify
from gpufairy.store.backup_postgres import restore_database
from gpufairy.store.database import open_database
from gpufairy.store.leader import FileLock, LeaseTimes, take_lease
from gpufairy.store.migrate import KNOWN

HOLDER = "fairy restore"
BESIDE = ("", "-wal", "-shm")  # SQLite's files: a write-ahead file of another database would be read into the new one
ASIDE = "before-restore-"
RESTORED_SETTINGS = "fairy.toml.restored"
TIMES = LeaseTimes()


@dataclass(frozen=True, slots=True)
class Restored:
    manifest: Manifest
    aside: Path | None  # None: nothing was there, or nothing was changed
    settings: Path | None  # where the settings of then lie; None: there were none, or the same are in force
    waiting: int  # sessions that waited when it was made, and so wait again


def check_backup(archive: Path, data: Path) -> Restored:
    """All but the last step. Raises BadInput: it is not good."""
    with proved(archive, data) as (manifest, folder):
        return Restored(manifest, None, None, waiting_in(manifest, folder))


def restore_backup(archive: Path, sources: Sources, now: datetime) -> Restored:
    data = sources.data
    with words_for(data):
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with proved(archive, data) as (manifest, folder):
        waiting = waiting_in(manifest, folder)
        aside = data / f"{ASIDE}{now:%Y%m%dT%H%M%SZ}"
        if manifest.database == SQLITE:
            put_sqlite(manifest, folder, sources, aside)
        else:
            put_postgres(folder / manifest.database, sources)
            with words_for(data):
                put_files(manifest, folder, data, aside)
        settings = put_settings(manifest, folder, sources)
    return Restored(manifest, aside if aside.exists() else None, settings, waiting)


@contextmanager
def proved(archive: Path, data: Path) -> Iterator[tuple[Manifest, Path]]:
    """On the data folder's own disk: what is put in place is renamed, not copied."""
    with words_for(data):
        base = Path(tempfile.mkdtemp(prefix=".restoring-", dir=data if data.is_dir() else None))
    try:
        folder = base / "files"
        manifest = verify(archive, folder)
        if manifest.schema not in KNOWN:
            raise BadInput(
                f"the backup {archive.name} has tables of form {manifest.schema}, made by gpufairy {manifest.version}; "
                f"this one knows up to {KNOWN[-1]}",
                f"Install gpufairy {manifest.version} or newer, and restore with that.",
            )
        yield manifest, folder
    finally:
        shutil.rmtree(base, ignore_errors=True)


def put_sqlite(manifest: Manifest, folder: Path, sources: Sources, aside: Path) -> None:
    file = sources.sqlite_file
    if file is None:
        raise BadInput("this is a backup of SQLite, and the settings name PostgreSQL", "Leave out `store`, or take a backup of that.")
    with words_for(sources.data):
        lock = FileLock(file, HOLDER)  # raises Conflict: a server runs on it
        try:
            keep_aside(file, aside, sources.data)
            failpoints.passing("after_old_aside_before_restored")
            os.rename(folder / SQLITE, file)
            failpoints.passing("after_database_before_files_restored")
            put_files(manifest, folder, sources.data, aside)
            sync(sources.data)
        finally:
            lock.release()


def keep_aside(file: Path, aside: Path, data: Path) -> None:
    """The old one stays in force until the new one takes its place, in one step: a restore that is killed leaves the one or the other."""
    log = file.with_name(f"{file.name}-wal")
    if log.exists():  # it goes when its database is made one file, whatever it was
        shutil.copy2(log, kept_as(log, aside, data))
    if file.exists() and file.is_relative_to(data) and is_one_file(file):
        target = kept_as(file, aside, data)
        os.link(file, target)
        sync(target.parent)
        return
    for ending in BESIDE:
        move_aside(file.with_name(file.name + ending), aside, data)


def is_one_file(file: Path) -> bool:
    """Whether all of it is in this file from now on. False: it is damaged, and kept as it lies there."""
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        return False
    return not any(file.with_name(file.name + ending).exists() for ending in BESIDE[1:])


def put_postgres(dump: Path, sources: Sources) -> None:
    """A server that runs is seen by its beat, which is waited for; what is replaced is gone: make a backup first."""
    if sources.sqlite_file is not None:
        raise BadInput("this is a backup of PostgreSQL, and the settings name none", "Name the settings file that does: --config FILE.")
    database = open_database(sources.store_url)
    try:
        asyncio.run(take_lease(database, HOLDER, TIMES, wait=False))
    finally:
        database.dispose()
    restore_database(sources.store_url, dump)


def put_files(manifest: Manifest, folder: Path, data: Path, aside: Path) -> None:
    for name in KEPT:
        if any(file.name == DATA + name for file in manifest.files):
            target = data / name
            target.parent.mkdir(mode=0o700, exist_ok=True)
            move_aside(target, aside, data)
            os.rename(folder / (DATA + name), target)


def put_settings(manifest: Manifest, folder: Path, sources: Sources) -> Path | None:
    """Never over the file in force, which is the admin's."""
    if not any(file.name == SETTINGS for file in manifest.files):
        return None
    with words_for(sources.data):
        found = (folder / SETTINGS).read_bytes()
        if sources.settings_file is not None and sources.settings_file.is_file() and sources.settings_file.read_bytes() == found:
            return None
        target = sources.data / RESTORED_SETTINGS
        os.replace(folder / SETTINGS, target)
        return target


def move_aside(path: Path, aside: Path, data: Path) -> None:
    if not path.exists():
        return
    shutil.move(path, kept_as(path, aside, data))


def kept_as(path: Path, aside: Path, data: Path) -> Path:
    target = aside / (path.relative_to(data) if path.is_relative_to(data) else path.name)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside.chmod(0o700)
    return target


def waiting_in(manifest: Manifest, folder: Path) -> int:
    if manifest.database != SQLITE or not manifest.counts.get("sessions"):
        return 0
    with closing(sqlite3.connect(folder / SQLITE)) as connection:
        return int(connection.execute("SELECT count(*) FROM sessions WHERE phase = 'queued'").fetchone()[0])


@contextmanager
def words_for(data: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = f"the data folder {data} could not be written: {error.strerror or error}"
        raise StoreUnavailable(words, "Check who owns it and the room on its disk; then restore again.") from error
