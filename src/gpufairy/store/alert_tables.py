"""Tables of alerts and messages, beside those of tables.py: what fired and when, what is kept silent, what is still to be sent."""
from sqlalchemy import BigInteger, Column, Index, Table, Text, text

from gpufairy.store.tables import RowNumber, metadata

LIVE = text("resolved_at IS NULL")
WAITING = text("state = 'waiting'")

# What fires, and what did. Those that are only pending are kept in memory: after a restart they are seen again.
alerts = Table(
    "alerts",
    metadata,
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
Index("alerts_live", alerts.c.fired_at, sqlite_where=LIVE, postgresql_where=LIVE)
Index("alerts_fired", alerts.c.fired_at)
Index("alerts_rule", alerts.c.rule, alerts.c.fired_at)

silences = Table(
    "silences",
    metadata,
    Column("id", Text, primary_key=True),
    Column("rule", Text, nullable=False),  # patterns, as in a shell
    Column("node", Text, nullable=False),
    Column("thing", Text, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("why", Text, nullable=False),
)
Index("silences_end", silences.c.end)

# What is to be told to whom. Written with what it tells of, sent afterwards; the same key is written once.
outbox = Table(
    "outbox",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("channel", Text, nullable=False),  # of the settings; or user:NAME
    Column("key", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # waiting, sent, given up
    Column("done_at", BigInteger),
    Column("why", Text, nullable=False),
    sqlite_autoincrement=True,
)
Index("outbox_key", outbox.c.channel, outbox.c.key, unique=True)
Index("outbox_waiting", outbox.c.channel, outbox.c.number, sqlite_where=WAITING, postgresql_where=WAITING)
Index("outbox_at", outbox.c.at)

# Where users want to be told of their own sessions.
user_channels = Table(
    "user_channels",
    metadata,
    Column("user", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("address", Text, nullable=False),
    Column("about", Text, nullable=False),  # JSON: which messages
    Column("changed_at", BigInteger, nullable=False),
)
