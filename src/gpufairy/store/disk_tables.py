"""Tables of disk use, beside those of tables.py: the last look at each place, and one sum a day of everybody there."""
from sqlalchemy import BigInteger, Column, Index, Table, Text

from gpufairy.store.tables import metadata

disk_looks = Table(
    "disk_looks",
    metadata,
    Column("place", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("full_at", BigInteger),  # the last that trusted nothing
    Column("body", Text, nullable=False),  # JSON
)

disk_days = Table(
    "disk_days",
    metadata,
    Column("day", BigInteger, primary_key=True, autoincrement=False),  # as date.toordinal counts them
    Column("place", Text, primary_key=True),
    Column("who", Text, primary_key=True),  # a user; `*`: everybody
    Column("bytes", BigInteger, nullable=False),
    Column("inodes", BigInteger, nullable=False),
)
Index("disk_days_who", disk_days.c.who, disk_days.c.day)
