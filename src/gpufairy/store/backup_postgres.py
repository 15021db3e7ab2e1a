"""A copy of a PostgreSQL database by its own pg_dump, of the very snapshot whose rows were counted; and the way back by pg_restore."""
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from gpufairy.core.errors import BadInput, StoreUnavailable
from gpufairy.store.backup_sqlite import Inside

LONGEST_S = 3600
WORDS_OF = {
    "host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE", "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "options": "PGOPTIONS", "hostaddr": "PGHOSTADDR",
}  # fmt: skip
NOT_COUNTED = ("leader",)
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
_COPY = re.compile(rb"COPY (?:[\w\"]+\.)?\"?(\w+)\"? \(")


def dump_database(url: str, target: Path, *, history: bool) -> Inside:
    """Without `history` raw reports stay out; blocks of readings are all in, whatever their step: pg_dump takes whole tables."""
    program = found_program("pg_dump")
    try:
        with psycopg.connect(plain(url), application_name="gpufairy backup") as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            inside = look(connection)
            if not history and "reading_reports" in inside.counts:
                inside.counts["reading_reports"] = 0
            snapshot = connection.execute("SELECT pg_export_snapshot()").fetchone()
            assert snapshot is not None
            left_out = [] if history else ["--exclude-table-data=*.reading_reports"]
            command = [program, "--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot[0]}", *left_out]
            run([*command, f"--file={target}"], env_of(url))
            return inside
    except psycopg.Error as error:
        words = " ".join(str(error).split())[:200]
        raise StoreUnavailable(f"the database did not answer: {words}", "Is it up, and is it reached?") from error


def look(connection: psycopg.Connection) -> Inside:
    names = [str(row[0]) for row in connection.execute(TABLES).fetchall()]
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone() if "alembic_version" in names else None
    counts: dict[str, int] = {}
    for name in names:
        if name not in NOT_COUNTED:
            row = connection.execute(psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(name))).fetchone()
            counts[name] = 0 if row is None else int(row[0])
    return Inside(None if found is None else str(found[0]), counts)


def look_inside(file: Path) -> dict[str, int]:
    """Rows of each table that has any, by reading all of the dump. Raises BadInput: it is damaged."""
    command = [found_program("pg_restore"), "--data-only", "--file=-", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        counts, table = dict[str, int](), ""
        for line in reading.stdout:
            if table:
                if line == b"\\.\n":
                    table = ""
                else:
                    counts[table] += 1
            elif (begun := _COPY.match(line)) is not None:
                table = begun[1].decode()
                counts[table] = 0
        words = reading.stderr.read().decode(errors="replace")
    if reading.returncode != 0:
        raise BadInput(f"the dump {file.name} is damaged: {last_line(words)}", "Take another backup.")
    return counts


def restore_database(url: str, file: Path) -> None:
    """In one transaction: what was there goes with it, or all stays as it is."""
    command = [found_program("pg_restore"), "--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction"]
    run([*command, f"--dbname={conninfo_to_dict(plain(url)).get('dbname', '')}", str(file)], env_of(url))


def found_program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        next_step = "Install PostgreSQL's client programs, of its server's version or newer: apt-get install postgresql-client"
        raise BadInput(f"{name} is not on this machine", next_step)
    return program


def run(command: list[str], env: Mapping[str, str]) -> None:
    try:
        nothing = subprocess.DEVNULL  # it would ask for a password for ever
        done = subprocess.run(command, env=dict(env), stdin=nothing, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreUnavailable(f"{Path(command[0]).name} did not end well: {error}", "See whether the database answers.") from error
    if done.returncode != 0:
        raise StoreUnavailable(f"{Path(command[0]).name} refused: {last_line(done.stderr)}", "Is it as new as the database's server?")


def env_of(url: str) -> dict[str, str]:
    """By variables: a password on the command line is everybody's to read."""
    known = {WORDS_OF[word]: str(value) for word, value in conninfo_to_dict(plain(url)).items() if word in WORDS_OF and value is not None}
    return {**os.environ, **known}


def plain(url: str) -> str:
    """As libpq writes it."""
    kind, _, rest = url.partition("://")
    return f"postgresql://{rest}" if kind.startswith("postgres") else url


def last_line(words: str) -> str:
    return (words.strip().splitlines() or ["no words"])[-1][:300]
