"""Pools of nodes that come when they are asked for."""
from alembic import op
from sqlalchemy import BigInteger, Column, Integer, Text

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "pools",
        Column("name", Text, primary_key=True),
        Column("cloud", Text, nullable=False),
        Column("cluster", Text, nullable=False),
        Column("machine", Text, nullable=False),
        Column("least", Integer, nullable=False),
        Column("most", Integer, nullable=False),
        Column("made_by", Text, nullable=False),
        Column("made_at", BigInteger, nullable=False),
        Column("state", Text, nullable=False),
        Column("boots_s", Text, nullable=False),
        Column("options", Text, nullable=False),
        Column("trouble", Text, nullable=False),
    )
