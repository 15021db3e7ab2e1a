"""Brings the tables to the form that this version knows; each step is one transaction, so one that was killed simply runs again."""
import importlib
from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from gpufairy.core import failpoints
from gpufairy.core.errors import BadInput, Conflict, StoreUnavailable
from gpufairy.store.database import Database
from gpufairy.store.faults import core_errors
from gpufairy.store.leader import Lease

STEPS = "gpufairy.store.steps"  # loaded when there is one to take: Alembic takes a tenth of a second, and most starts need none
KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012", "0013")  # oldest first

BeforeUpgrade = Callable[[str], str]  # given the form that was found; says where what was there is kept, or that it is not


def nothing_kept(_found: str) -> str:
    return "no backup was made of it"


def migrate(database: Database, lease: Lease, before_upgrade: BeforeUpgrade = nothing_kept) -> None:
    """By the leader alone, and under its epoch: one that lost the lease changes no table."""
    with core_errors(database.place), database.writing.begin() as connection:
        lease.claim(connection, lease.next_beat())
        found = version(connection)
    if found == KNOWN[-1]:
        return
    if found is not None and found not in KNOWN:
        raise StoreUnavailable(
            f"database {database.place} has form {found}, made by a newer gpufairy; this one knows up to {KNOWN[-1]}",
            "Start the newer version again, or put back a backup from before the upgrade: fairy restore FILE.",
        )
    kept = nothing_kept("") if found is None else before_upgrade(found)
    failpoints.passing("after_backup_before_upgrade")
    try:
        apply(database, lease)
    except (StoreUnavailable, BadInput, Conflict) as error:
        if found is None:
            raise
        why = error.detail
        raise StoreUnavailable(
            f"the upgrade of database {database.place} from form {found} to {KNOWN[-1]} failed, so it is as it was: {why}",
            f"Start the version that you had before; sessions run on. {kept}. Mend what is said above, then try again.",
        ) from error


def apply(database: Database, lease: Lease) -> None:
    """All steps in one transaction: whole, or not at all."""
    with core_errors(database.place), database.writing.begin() as connection:
        lease.claim(connection, lease.next_beat())
        importlib.import_module(STEPS).upgrade(connection, KNOWN[-1])
        failpoints.passing("before_upgrade_commit")


def version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found
