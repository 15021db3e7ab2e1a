"""A copy of a SQLite database that is in use: one snapshot, read beside the writer, who waits for nothing."""
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gpufairy.core.errors import BadInput, StoreUnavailable

BUSY_LIMIT_S = 5
FINEST_KEPT_S = 3600  # readings by the hour are kept for ever: the accounts are made of them
# Of what is large and of use for some days only: which rows are taken along all the same.
FINE_HISTORY = {"reading_reports": "0", "reading_blocks": f"step_s >= {FINEST_KEPT_S}"}
NOT_COUNTED = ("leader",)


@dataclass(frozen=True, slots=True)
class Inside:
    """What a database file turned out to be."""

    schema: str | None  # None: no migration was ever applied
    counts: dict[str, int]


def copy_database(source: Path, target: Path, *, history: bool) -> None:
    """`target` must not be there yet. `history`: the fine readings as well."""
    with words_for(source), closing(opened(source)) as connection:
        if history:
            with closing(sqlite3.connect(target)) as copy:
                connection.backup(copy)
            return
        tables = make_tables(connection, target)
        connection.execute("ATTACH DATABASE ? AS copy", (str(target),))
        connection.execute("PRAGMA copy.synchronous = OFF")  # it is read back, and thrown away if anything is amiss
        connection.execute("BEGIN")
        for table in tables:
            connection.execute(f'INSERT INTO copy."{table}" SELECT * FROM main."{table}" WHERE {FINE_HISTORY.get(table, "1")}')
        connection.execute("DELETE FROM copy.sqlite_sequence")
        connection.execute("INSERT INTO copy.sqlite_sequence SELECT * FROM main.sqlite_sequence")
        connection.execute("COMMIT")


def make_tables(connection: sqlite3.Connection, target: Path) -> list[str]:
    made = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'").fetchall()
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        for _, _, statement in sorted(made, key=lambda one: one[0] != "table"):
            copy.execute(statement)
    return [name for kind, name, _ in made if kind == "table"]


def look_inside(file: Path) -> Inside:
    """Reads all of it. Raises BadInput: it is damaged, or no database."""
    try:
        with closing(opened(file)) as connection:
            found = connection.execute("PRAGMA integrity_check").fetchone()[0]
            if found != "ok":
                raise BadInput(f"the database {file.name} is damaged: {str(found)[:100]}", "Take another backup.")
            return Inside(schema_of(connection), counts_of(connection))
    except sqlite3.Error as error:
        raise BadInput(f"{file.name} is no database that can be read: {error}", "Take another backup.") from None


def schema_in(file: Path) -> str | None:
    """Of a database that may be in use. None: no migration was ever applied to it."""
    with words_for(file), closing(opened(file)) as connection:
        return schema_of(connection)


def meta_in(file: Path, name: str) -> str | None:
    """A value of the meta table; None as well where there is no such table yet."""
    with words_for(file), closing(opened(file)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            return None
        found = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])


def schema_of(connection: sqlite3.Connection) -> str | None:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        return None
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if found is None else str(found[0])


def counts_of(connection: sqlite3.Connection) -> dict[str, int]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name").fetchall()
    return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in names if name not in NOT_COUNTED}


def opened(file: Path) -> sqlite3.Connection:
    """Never made anew: a path that is wrong is an error, not an empty database."""
    return sqlite3.connect(f"file:{quote(str(file))}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_LIMIT_S)


@contextmanager
def words_for(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"database {file} could not be copied: {error}", "Check the room on its disk, and who owns it.") from error
