"""What a support bundle is made of, before it is masked; and what of this house is secret, so that it can be."""
import importlib.metadata
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from pydantic import BaseModel

from gpufairy import __version__
from gpufairy.store.backup import Sources, list_backups
from gpufairy.store.backup_postgres import plain
from gpufairy.store.backup_sqlite import counts_of, opened, schema_of
from gpufairy.wire.config import Config

LAST_LINES_BYTES = 512 * 2**10
DOCTOR_LIMIT_S = 120
# Sections without a name, an address or a path in them: told as they are. Of all others figures and switches alone.
TOLD = frozenset("policy gpus selftest reclaim bookings advice backup keep alerts".split())
LOGS = ("server.log", "server.log.1", "ssh/gateway.log")
SET = "[set]"
# Columns whose every value is a secret, or a person's own affair.
SECRET_COLUMNS = (
    ("meta", "value"), ("tokens", "hash"), ("keys", "text"), ("keys", "fingerprint"), ("agents", "key"), ("user_channels", "address"),
    ("class_links", "hash"), ("class_members", "email"), ("class_members", "full_name"), ("class_members", "key"),
)  # fmt: skip
PEOPLE_COLUMNS = (("users", "name"), ("class_members", "user"))
MOST_VALUES = 20_000
ASKED: dict[str, Any] = {"autocommit": True, "connect_timeout": 5}


def about() -> dict[str, Any]:
    packages = {found.metadata["Name"]: found.version for found in importlib.metadata.distributions()}
    return {
        "gpufairy": __version__, "python": sys.version, "system": platform.platform(), "machine": platform.machine(),
        "distribution": distribution(), "cpus": os.cpu_count(), "packages": dict(sorted(packages.items())),
    }  # fmt: skip


def distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def settings(config: Config) -> dict[str, Any]:
    """What differs from the defaults."""
    usual = Config()
    changed = [name for name in Config.model_fields if getattr(config, name) != getattr(usual, name)]
    return {name: shown(name in TOLD, getattr(config, name)) for name in changed}


def shown(is_told: bool, value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: shown(is_told, getattr(value, name)) for name in type(value).model_fields if getattr(value, name) is not None}
    if isinstance(value, Mapping):  # its keys are names that somebody chose
        return f"{len(value)} of them"
    if isinstance(value, list):
        return [shown(is_told, one) for one in value]
    if value is None or isinstance(value, bool | int | float) or is_told:
        return value
    return SET


def database(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {"kind": "postgresql"}
    try:
        with closing(opened(file)) as connection:
            return {
                "kind": "sqlite", "size_bytes": file.stat().st_size, "schema": schema_of(connection), "rows": counts_of(connection),
                "sessions": grouped(connection, "phase", "sessions"), "outcomes": grouped(connection, "outcome", "sessions"),
                "alerts": grouped(connection, "rule", "alerts WHERE resolved_at IS NULL"), "events": grouped(connection, "what", "events"),
            }  # fmt: skip
    except (sqlite3.Error, OSError) as error:
        return {"kind": "sqlite", "trouble": str(error)}


def grouped(connection: sqlite3.Connection, column: str, source: str) -> dict[str, int]:
    try:
        return {str(value): count for value, count in connection.execute(f"SELECT {column}, count(*) FROM {source} GROUP BY 1")}
    except sqlite3.Error:  # an older form of the tables
        return {}


def disk(data: Path, backups: Path) -> dict[str, Any]:
    usage = shutil.disk_usage(data)
    kept = list_backups(backups)
    return {
        "total_bytes": usage.total, "free_bytes": usage.free, "backups": len(kept),
        "last_backup": str(kept[0].made_at) if kept else None, "last_backup_bytes": kept[0].size_bytes if kept else None,
        "parts": {entry.name: entry.stat().st_size for entry in sorted(os.scandir(data), key=lambda one: one.name) if entry.is_file()},
    }  # fmt: skip


def logs(data: Path) -> Iterator[tuple[str, str]]:
    for name in LOGS:
        try:
            with (data / name).open("rb") as log:
                log.seek(max(0, os.path.getsize(data / name) - LAST_LINES_BYTES))
                yield name.replace("/", "-"), log.read().decode(errors="replace")
        except OSError:
            continue


def doctor() -> str:
    """What `fairy doctor` finds. A word for why, where it does not tell."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "gpufairy", "doctor", "--json"], capture_output=True, text=True, timeout=DOCTOR_LIMIT_S,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no answer: {error}"
    return done.stdout or done.stderr


def secrets_of(data: Path, config: Config, sources: Sources) -> Iterator[str]:
    yield from secret_settings(config)
    for path in (*data.glob("ssh/*"), *data.glob("sessions/run/*/token"), data / "server-id"):
        if path.suffix != ".log" and path.is_file():
            yield read(path)
    yield from values_of(sources, SECRET_COLUMNS)


def secret_settings(value: Any, name: str = "") -> Iterator[str]:
    """Every text of a section that is not told, and what lies in the files and variables that it names."""
    if isinstance(value, Config):
        for section in Config.model_fields:
            if section not in TOLD:
                yield from secret_settings(getattr(value, section))
    elif isinstance(value, BaseModel):
        for field in type(value).model_fields:
            yield from secret_settings(getattr(value, field), field)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from secret_settings(one, str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from secret_settings(one, name)
    elif isinstance(value, str):
        yield from secret_text(value, name)


def secret_text(value: str, name: str) -> Iterator[str]:
    if name.endswith("_file"):
        yield read(Path(value))
    elif name.endswith("_env"):
        yield os.environ.get(value, "")
    elif not value.isalpha():  # a plain word such as "starttls" hides nothing, and stands in half of all lines
        yield value
        yield from (part for part in value.replace("@", " ").replace("/", " ").split() if len(part) > 11)


def people_of(sources: Sources) -> set[str]:
    return set(values_of(sources, PEOPLE_COLUMNS))


def values_of(sources: Sources, columns: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Of a database that does not answer none are known; what looks like a secret is masked all the same."""
    file = sources.sqlite_file
    try:
        with closing(psycopg.connect(plain(sources.store_url), **ASKED) if file is None else opened(file)) as connection:
            for table, column in columns:
                try:
                    rows = connection.execute(f'SELECT "{column}" FROM {table} LIMIT {MOST_VALUES}').fetchall()
                except (sqlite3.Error, psycopg.Error):  # an older form of the tables
                    continue
                yield from (str(value) for (value,) in rows if value)
    except (sqlite3.Error, psycopg.Error):
        return


def read(path: Path) -> str:
    try:
        return path.read_bytes()[:65536].decode(errors="replace")
    except OSError:
        return ""
