"""Maintenance windows of hosts, and the times in which no server watched them."""
from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "maintenance",
        Column("id", Text, primary_key=True),
        Column("node", Text, nullable=False),
        Column("start", BigInteger, nullable=False),
        Column("end", BigInteger, nullable=False),
        Column("made_by", Text, nullable=False),
        Column("why", Text, nullable=False),
    )
    op.create_index("maintenance_end", "maintenance", ["end"])
    op.create_table("unwatched", Column("start", BigInteger, primary_key=True), Column("end", BigInteger, nullable=False))
