"""The steps from one form of the tables to the next, run by Alembic."""
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from gpufairy.core.errors import StoreUnavailable
from gpufairy.store.faults import one_line

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection, form: str) -> None:
    """Up to that form, on this connection and in its transaction."""
    settings = Config(attributes={"connection": connection})
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    try:
        command.upgrade(settings, form)
    except CommandError as error:
        raise StoreUnavailable(one_line(error), "Install gpufairy anew: the steps of its tables are not whole.") from error
