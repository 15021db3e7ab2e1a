"""Run by Alembic, on the connection and in the transaction that migrate.py gives it."""
from alembic import context

from gpufairy.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
