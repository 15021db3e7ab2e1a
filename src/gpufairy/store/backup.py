"""Backups: one snapshot of the database and what else cannot be made again, packed, read back, and only then given their name."""
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpufairy import __version__
from gpufairy.core import failpoints
from gpufairy.core.backup_manifest import DATA, KEPT, POSTGRESQL, SETTINGS, SQLITE, Manifest
from gpufairy.core.errors import BadInput, StoreUnavailable
from gpufairy.store import backup_postgres
from gpufairy.store.backup_archive import packed, read_manifest, unpack, write_archive
from gpufairy.store.backup_sqlite import Inside, copy_database, look_inside

PREFIX, BEFORE_UPGRADE, SUFFIX = "fairy-", "before-upgrade-", ".tar.gz"
STAGING = ".making-"
LEFT_OVER_S = 24 * 3600  # a folder of one that was killed half-way is nobody's any more
STAMP = "%Y%m%dT%H%M%SZ"
OURS = re.compile(r"(fairy|before-upgrade)-[A-Za-z0-9.+-]{1,80}\.tar\.gz")


@dataclass(frozen=True, slots=True)
class Sources:
    store_url: str
    data: Path
    settings_file: Path | None = None

    @property
    def sqlite_file(self) -> Path | None:
        return Path(self.store_url.split("///", 1)[1]) if self.store_url.startswith("sqlite") else None


@dataclass(frozen=True, slots=True)
class Backup:
    path: Path
    size_bytes: int
    manifest: Manifest | None  # None: it cannot be read
    trouble: str = ""

    @property
    def made_at(self) -> datetime | None:
        return None if self.manifest is None else self.manifest.made_at


def make_backup(sources: Sources, folder: Path, *, name: str, why: str, now: datetime, history: bool) -> Backup:
    """Takes a while: call it from a thread. `name`: without its ending."""
    target = folder / f"{name}{SUFFIX}"
    with words_for(folder):
        make_private(folder)
        if target.exists():
            raise BadInput(f"there is a backup {target} already", "Ask again in a second.")
        remove_left_overs(folder)
        with staging_in(folder) as staging:
            inside, staged = stage(sources, staging, history=history)
            files = tuple(packed(file, path) for file, path in staged.items())
            manifest = Manifest(now, __version__, inside.schema or "", why, history, inside.counts, files)
            partial = staging / "archive"
            write_archive(partial, manifest, staged)
            verify(partial, staging / "read-back")
            size_bytes = partial.stat().st_size
            failpoints.passing("after_backup_packed_before_named")
            os.rename(partial, target)
            sync(folder)
    return Backup(target, size_bytes, manifest)


def stage(sources: Sources, staging: Path, *, history: bool) -> tuple[Inside, dict[str, Path]]:
    if (file := sources.sqlite_file) is not None:
        database, target = SQLITE, staging / "database"
        copy_database(file, target, history=history)
        inside = look_inside(target)
    else:
        database, target = POSTGRESQL, staging / "database"
        inside = backup_postgres.dump_database(sources.store_url, target, history=history)
    staged = {database: target}
    if sources.settings_file is not None and sources.settings_file.is_file():
        staged[SETTINGS] = sources.settings_file
    staged |= {DATA + name: path for name in KEPT if (path := sources.data / name).is_file() and not path.is_symlink()}
    return inside, staged


def verify(archive: Path, folder: Path) -> Manifest:
    """Unpacks all of it there and compares; the files stay, for who wants to put them in place. Raises BadInput."""
    folder.mkdir(mode=0o700)
    manifest = unpack(archive, folder)
    database = folder / manifest.database
    found = look_inside(database).counts if manifest.database == SQLITE else backup_postgres.look_inside(database)
    wrong = next((table for table, rows in manifest.counts.items() if found.get(table, 0) != rows), None)
    if wrong is not None:
        words = f"the backup {archive.name} has {found.get(wrong, 0)} rows of {wrong}, not {manifest.counts[wrong]}"
        raise BadInput(words, "Take another backup.")
    return manifest


def list_backups(folder: Path) -> list[Backup]:
    """The newest first; those that cannot be read last."""
    try:
        paths = [path for path in folder.iterdir() if OURS.fullmatch(path.name) and path.is_file()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreUnavailable(f"the folder of backups {folder} cannot be read: {error.strerror}", "Check who owns it.") from error
    found = [seen(path) for path in paths]
    return sorted(found, key=lambda one: -one.made_at.timestamp() if one.made_at else 0.0)


def seen(path: Path) -> Backup:
    try:
        size_bytes = path.stat().st_size
        return Backup(path, size_bytes, read_manifest(path))
    except (BadInput, StoreUnavailable) as error:
        return Backup(path, size_bytes, None, error.detail)
    except OSError as error:
        return Backup(path, 0, None, str(error.strerror))


def remove_backup(backup: Backup) -> None:
    with words_for(backup.path.parent):
        backup.path.unlink(missing_ok=True)


def backup_name(now: datetime) -> str:
    return f"{PREFIX}{now:{STAMP}}"


def make_private(folder: Path) -> None:
    """Made with its parents; one that is there and others may look into is left to whoever made it so: the files are private."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def remove_left_overs(folder: Path) -> None:
    for path in folder.glob(f"{STAGING}*"):
        if time.time() - path.stat().st_mtime > LEFT_OVER_S:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def staging_in(folder: Path) -> Iterator[Path]:
    """On the disk where the backup will lie: what does not fit there is known before anything has its name."""
    made = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def words_for(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        next_step = "Free some room there, or name another folder: `to` under [backup], or --to."
        raise StoreUnavailable(f"the backup could not be written to {folder}: {error.strerror or error}", next_step) from error


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
