"""The witness's own SQL, on each database that a server can have. `?` stands for a value."""
import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, Protocol, cast

import psycopg

Rows = list[tuple[Any, ...]]


class Tables(Protocol):
    def rows(self, query: str, *values: object) -> Rows: ...

    def check(self) -> None:
        """The database itself is sound."""


@dataclass(frozen=True, slots=True)
class SqliteTables:
    file: Path

    def rows(self, query: str, *values: object) -> Rows:
        with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=10)) as database:
            return database.execute(query, values).fetchall()

    def check(self) -> None:
        assert self.rows("pragma integrity_check") == [("ok",)]
        assert self.rows("pragma foreign_key_check") == []


@dataclass(frozen=True, slots=True)
class PostgresTables:
    url: str

    def rows(self, query: str, *values: object) -> Rows:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.read_only = True
            return connection.execute(cast(LiteralString, query.replace("?", "%s")), values).fetchall()

    def check(self) -> None:
        """PostgreSQL sees to the rest itself, unless somebody told it not to."""
        assert self.rows("select conname from pg_constraint where not convalidated") == []
        assert self.rows("select indexrelid from pg_index where not (indisvalid and indisready)") == []
