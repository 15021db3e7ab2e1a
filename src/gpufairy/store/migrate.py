"""Brings the tables to the form that this version knows; each step is one transaction, so one that was killed simply runs again."""
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text

from gpufairy.core.errors import StoreUnavailable
from gpufairy.store.database import Database
from gpufairy.store.faults import core_errors
from gpufairy.store.leader import Lease

MIGRATIONS = Path(__file__).parent / "migrations"
KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")  # oldest first; here: most starts need not load them


def migrate(database: Database, lease: Lease) -> None:
    """By the leader alone, and under its epoch: one that lost the lease changes no table."""
    with core_errors(database.place), database.writing.begin() as connection:
        lease.claim(connection, lease.next_beat())
        found = version(connection)
        if found == KNOWN[-1]:
            return
        if found is not None and found not in KNOWN:
            raise StoreUnavailable(
                f"database {database.place} has form {found}, made by a newer gpufairy; this one knows up to {KNOWN[-1]}",
                "Start the newer version again, or put back a backup from before the upgrade.",
            )
        command.upgrade(configuration(connection), KNOWN[-1])


def version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def configuration(connection: Connection) -> Config:
    settings = Config(attributes={"connection": connection})
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    return settings
