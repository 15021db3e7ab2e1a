"""The image of a session beside what it held: so that accounts of a month stay the same when the session itself is forgotten."""
from alembic import op
from sqlalchemy import Column, Text

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("holds", Column("image", Text))
