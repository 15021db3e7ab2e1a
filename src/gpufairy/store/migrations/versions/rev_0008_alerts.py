"""Alerts, silences, what is to be told to whom, and where users want to be told."""
from alembic import op
from sqlalchemy import BigInteger, Column, Integer, Text, text

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    add_alerts()
    add_silences()
    add_outbox()
    add_user_channels()


def add_alerts() -> None:
    live = text("resolved_at IS NULL")
    op.create_table(
        "alerts",
        Column("id", Text, primary_key=True),
        Column("rule", Text, nullable=False),
        Column("thing", Text, nullable=False),
        Column("node", Text, nullable=False),
        Column("severity", Text, nullable=False),
        Column("sentence", Text, nullable=False),
        Column("todo", Text, nullable=False),
        Column("since", BigInteger, nullable=False),
        Column("fired_at", BigInteger, nullable=False),
        Column("seen_at", BigInteger, nullable=False),
        Column("told_at", BigInteger),
        Column("escalated_at", BigInteger),
        Column("resolved_at", BigInteger),
        Column("ended_why", Text, nullable=False),
        Column("acked_at", BigInteger),
        Column("acked_by", Text, nullable=False),
    )
    op.create_index("alerts_live", "alerts", ["fired_at"], sqlite_where=live, postgresql_where=live)
    op.create_index("alerts_fired", "alerts", ["fired_at"])
    op.create_index("alerts_rule", "alerts", ["rule", "fired_at"])


def add_silences() -> None:
    op.create_table(
        "silences",
        Column("id", Text, primary_key=True),
        Column("rule", Text, nullable=False),
        Column("node", Text, nullable=False),
        Column("thing", Text, nullable=False),
        Column("start", BigInteger, nullable=False),
        Column("end", BigInteger, nullable=False),
        Column("made_by", Text, nullable=False),
        Column("why", Text, nullable=False),
    )
    op.create_index("silences_end", "silences", ["end"])


def add_outbox() -> None:
    waiting = text("state = 'waiting'")
    op.create_table(
        "outbox",
        Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True),
        Column("channel", Text, nullable=False),
        Column("key", Text, nullable=False),
        Column("body", Text, nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("state", Text, nullable=False),
        Column("done_at", BigInteger),
        Column("why", Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("outbox_key", "outbox", ["channel", "key"], unique=True)
    op.create_index("outbox_waiting", "outbox", ["channel", "number"], sqlite_where=waiting, postgresql_where=waiting)
    op.create_index("outbox_at", "outbox", ["at"])


def add_user_channels() -> None:
    op.create_table(
        "user_channels",
        Column("user", Text, primary_key=True),
        Column("kind", Text, primary_key=True),
        Column("address", Text, nullable=False),
        Column("about", Text, nullable=False),
        Column("changed_at", BigInteger, nullable=False),
    )
