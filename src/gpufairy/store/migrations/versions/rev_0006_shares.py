"""How GPUs are shared, as admins said it, and what self-tests found to hold."""
from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "share_rules",
        Column("of", Text, primary_key=True),
        Column("fgpu_parts", BigInteger),
        Column("sharing", Text),
    )
    op.create_table(
        "isolation_tests",
        Column("gpu", Text, primary_key=True),
        Column("sharing", Text, primary_key=True),
        Column("node", Text, nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("driver", Text),
        Column("attempts", Text, nullable=False),
    )
