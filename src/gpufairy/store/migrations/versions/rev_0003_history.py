"""The history of readings: reports as they came, and the blocks they are folded into."""
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, LargeBinary, Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table("reading_subjects", row_number(), *(must(name, Text) for name in ("kind", "name", "node")))
    op.create_index("reading_subjects_name", "reading_subjects", ["kind", "name", "node"], unique=True)
    op.create_table(
        "reading_reports",
        row_number(),
        *(must(name, BigInteger) for name in ("node", "at", "arrived_at")),
        must("body", LargeBinary),
        sqlite_autoincrement=True,
    )
    op.create_index("reading_reports_node_at", "reading_reports", ["node", "at"], unique=True)
    op.create_index("reading_reports_node", "reading_reports", ["node", "number"])
    op.create_index("reading_reports_arrived", "reading_reports", ["arrived_at"])
    op.create_table("reading_folds", Column("node", BigInteger, primary_key=True, autoincrement=False), must("report", BigInteger))
    op.create_table(
        "reading_blocks",
        row_number(),
        must("subject", BigInteger),
        must("step_s", Integer),
        must("start", BigInteger),
        must("body", LargeBinary),
    )
    op.create_index("reading_blocks_place", "reading_blocks", ["subject", "step_s", "start"], unique=True)
    op.create_index("reading_blocks_age", "reading_blocks", ["step_s", "start"])
    op.create_index("holds_until", "holds", ["until"])


def must(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=False)


def row_number() -> Column[Any]:
    return Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True)
