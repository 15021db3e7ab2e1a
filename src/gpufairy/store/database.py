"""Where the database is and how it is opened: one engine for the writer, one for readers. What is asked of it is elsewhere."""
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from gpufairy.core.errors import BadInput, StoreUnavailable

BUSY_LIMIT_S = 5  # how long a file locked by another program is waited for: shorter than a browser's patience
CONNECT_LIMIT_S = 5
# A PostgreSQL host that vanished without a word is noticed in about 20 s, instead of the kernel's two hours.
GONE_AFTER = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
READERS = 4  # threads and connections for reading: SQLite's readers never wait for its writer
LARGEST_WAL_BYTES = 64 * 2**20  # after a burst the write-ahead file is cut back to this


@dataclass(frozen=True, slots=True)
class Database:
    place: str  # for people: the file, or the address without its password
    file: Path | None  # SQLite alone
    writing: Engine
    reading: Engine

    def dispose(self) -> None:
        self.writing.dispose()
        self.reading.dispose()


def open_database(url: str) -> Database:
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return open_sqlite(Path(parsed.database or ""))
    # Never prepared on the server: a plan made while a table was empty reads all of it, and is kept long after it has grown.
    limits: dict[str, Any] = {"prepare_threshold": None, "connect_timeout": CONNECT_LIMIT_S, "application_name": "gpufairy", **GONE_AFTER}
    writing = create_engine(parsed, pool_size=1, max_overflow=0, connect_args=limits)
    # Every read is one statement, which is a snapshot already: a transaction around it would be two more round trips.
    reading = create_engine(parsed, pool_size=READERS, max_overflow=0, connect_args=limits, isolation_level="AUTOCOMMIT")
    return Database(parsed.render_as_string(hide_password=True), None, writing, reading)


def parse_url(url: str) -> URL:
    hint = "Write sqlite:////folder/file.db or postgresql://user@host/database."
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise BadInput("the database address cannot be read", hint) from None  # not shown: it may hold a password
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise BadInput(f"database kind {parsed.drivername!r} is neither sqlite nor postgresql", hint)
    if parsed.database in (None, "", ":memory:"):
        raise BadInput("the database address names no file", hint)
    return parsed


def open_sqlite(file: Path) -> Database:
    make_private(file)
    address = URL.create("sqlite", database=str(file))
    waits = {"timeout": BUSY_LIMIT_S, "check_same_thread": False}
    writing = create_engine(address, pool_size=1, max_overflow=0, connect_args=waits)
    reading = create_engine(address, pool_size=READERS, max_overflow=0, connect_args=waits, isolation_level="AUTOCOMMIT")
    for engine in (writing, reading):
        event.listen(engine, "connect", set_pragmas)
    event.listen(writing, "begin", begin_immediate)
    return Database(str(file), file, writing, reading)


def make_private(file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        file.chmod(0o600)  # the write-ahead files beside it take its mode
    except OSError as error:
        raise StoreUnavailable(f"database {file} cannot be opened: {error.strerror}", "Check who owns the file and its folder.") from error


def set_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # else Python's sqlite3 begins transactions by itself, at the wrong moments
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",  # a commit is on the disk before anybody is told of it
        "foreign_keys = ON",
        f"busy_timeout = {BUSY_LIMIT_S * 1000}",
        f"journal_size_limit = {LARGEST_WAL_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def begin_immediate(connection: Connection) -> None:
    """Takes the write lock at once: a reader that turns writer half-way cannot wait for it, and fails."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
