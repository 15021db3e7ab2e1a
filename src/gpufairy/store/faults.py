"""Foreign errors end here: what SQLite, PostgreSQL or SQLAlchemy raise becomes an error of core, in words."""
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from gpufairy.core.errors import BadInput, Conflict, FairyError, StoreUnavailable

RETRIED = "Nothing was written. It is tried again by itself; if it stays so, look at the server's log and the disk."


class ConnectionLost(StoreUnavailable):
    """The connection broke: a new one may work at once, so this is worth a second try."""


@contextmanager
def core_errors(place: str) -> Iterator[None]:
    """`place` names the database: its file, or its address without a password."""
    try:
        yield
    except SQLAlchemyError as error:
        raise core_error(error, place) from error


def core_error(error: SQLAlchemyError, place: str) -> FairyError:
    if isinstance(error, IntegrityError):
        return Conflict(f"database {place}: that row is there already, or names one that is not: {error.orig}", "Read it again.")
    if isinstance(error, DataError):
        return BadInput(f"database {place} cannot hold such a value: {error.orig}", "Leave out control characters and huge numbers.")
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return ConnectionLost(f"database {place}: the connection broke: {one_line(error)}", RETRIED)
    if isinstance(error, DBAPIError) and isinstance(error.orig, sqlite3.Error):
        return sqlite_error(error.orig, place)
    if isinstance(error, DBAPIError) and isinstance(error.orig, psycopg.Error):
        return postgres_error(error.orig, place)
    return StoreUnavailable(f"database {place} did not answer: {one_line(error)}", RETRIED)


def sqlite_error(error: sqlite3.Error, place: str) -> StoreUnavailable:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest its finer print
    if code == sqlite3.SQLITE_FULL:
        return disk_full(place)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(place, str(error))
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(
            f"database {place} is locked by another program",
            "Nothing was written. Close whatever has the file open (a backup, a sqlite3 shell); it is tried again by itself.",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreUnavailable(f"database {place} cannot be opened for writing: {error}", "Check who owns the file and its folder.")
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(f"the disk under database {place} failed: {error}", "Check the disk and its free space. " + RETRIED)
    return StoreUnavailable(f"database {place} did not answer: {error}", RETRIED)


def postgres_error(error: psycopg.Error, place: str) -> StoreUnavailable:
    if error.sqlstate == "53100":
        return disk_full(place)
    if error.sqlstate in ("XX001", "XX002"):
        return damaged(place, str(error))
    return StoreUnavailable(f"database {place} did not answer: {one_line(error)}", RETRIED)


def disk_full(place: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the disk that holds database {place} is full",
        "Nothing was written; what runs goes on. Free some space there, and writing goes on by itself.",
    )


def damaged(place: str, found: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"database {place} is damaged: {found}",
        f"What runs goes on. Stop the server, keep a copy of {place}, and put the last backup in its place.",
    )


def closed(place: str) -> StoreUnavailable:
    return StoreUnavailable(f"database {place} is closed: this server is stopping", "Ask again when it is back.")


def one_line(error: BaseException) -> str:
    """Without the statement and its parameters: those belong to users, and this goes into logs."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(cause).split())[:300]
