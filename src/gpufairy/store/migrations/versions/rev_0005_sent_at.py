"""Reports are known again by the time that their host gave them, and by the time that they tell of."""
from alembic import op
from sqlalchemy import BigInteger, Column, Integer

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("reading_reports", Column("sent_at", BigInteger))
    op.add_column("reading_reports", Column("tenths", Integer))
    op.execute("UPDATE reading_reports SET sent_at = at")
    op.drop_index("reading_reports_node_at", "reading_reports")
    op.create_index("reading_reports_node_at", "reading_reports", ["node", "at"])
    op.create_index("reading_reports_node_sent", "reading_reports", ["node", "sent_at"], unique=True)
