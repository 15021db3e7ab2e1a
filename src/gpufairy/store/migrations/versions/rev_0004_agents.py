"""Hosts that are watched: whose agents may report."""
from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "agents",
        Column("name", Text, primary_key=True),
        Column("key", Text, nullable=False),
        Column("accepted_at", BigInteger, nullable=False),
        Column("accepted_by", Text, nullable=False),
    )
