"""The table of pools, beside those of tables.py."""
from sqlalchemy import BigInteger, Column, Integer, Table, Text

from gpufairy.store.tables import metadata

pools = Table(
    "pools",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cloud", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("machine", Text, nullable=False),  # JSON
    Column("least", Integer, nullable=False),
    Column("most", Integer, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("boots_s", Text, nullable=False),  # JSON: seconds, the newest last
    Column("options", Text, nullable=False),  # JSON
    Column("trouble", Text, nullable=False),
)
