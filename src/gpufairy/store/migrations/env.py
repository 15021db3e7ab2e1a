"""Run by Alembic, on the connection and in the transaction that migrate.py gives it."""
from alembic import context

from gpufairy.core import failpoints
from gpufairy.store.tables import metadata


def step_done(*_: object, **__: object) -> None:
    failpoints.passing("between_upgrade_steps")


context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, on_version_apply=step_done)
context.run_migrations()
