"""Disk use: the last look at each place, a sum a day, and how much a user may have."""
from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "disk_looks",
        Column("place", Text, primary_key=True),
        Column("at", BigInteger, nullable=False),
        Column("full_at", BigInteger),
        Column("body", Text, nullable=False),
    )
    op.create_table(
        "disk_days",
        Column("day", BigInteger, primary_key=True, autoincrement=False),
        Column("place", Text, primary_key=True),
        Column("who", Text, primary_key=True),
        Column("bytes", BigInteger, nullable=False),
        Column("inodes", BigInteger, nullable=False),
    )
    op.create_index("disk_days_who", "disk_days", ["who", "day"])
    op.add_column("quotas", Column("disk_bytes", BigInteger))
