"""The tables of maintenance windows, and of the times in which no server watched, beside those of tables.py."""
from sqlalchemy import BigInteger, Column, Index, Table, Text

from gpufairy.store.tables import metadata

maintenance = Table(
    "maintenance",
    metadata,
    Column("id", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("why", Text, nullable=False),
)
Index("maintenance_end", maintenance.c.end)

unwatched = Table(
    "unwatched", metadata, Column("start", BigInteger, primary_key=True), Column("end", BigInteger, nullable=False)
)
