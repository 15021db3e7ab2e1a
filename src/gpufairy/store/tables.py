"""The tables, the same on SQLite and PostgreSQL. Their history is in migrations/; a test holds the two together.

Times are whole microseconds since 1970 in UTC: exact, comparable and the same in both databases.
"""
from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, text

metadata = MetaData()

# SQLite gives row numbers only to a column it calls INTEGER; that one has 64 bits there.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")

# Spelt out, never a bound parameter: a partial index serves a query only if the planner can read the same condition in it.
LIVE = text("phase <> 'ended'")
HOLDING = text("phase NOT IN ('ended', 'queued')")  # few, however long the queue is

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("submitted_at", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("team", Text),
    Column("priority", Integer, nullable=False),
    Column("wanted", Text, nullable=False),
    Column("stop_outcome", Text, nullable=False),
    Column("stop_why", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("outcome", Text),
    Column("exit_code", Integer),
    Column("seat", Text),
    Column("attempt", Integer, nullable=False),
    Column("refusals", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("placed_at", BigInteger),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("swapped_from", Text),
    Column("idle_step", Text, nullable=False, server_default=""),
    Column("idle_since", BigInteger),
    Column("kept_until", BigInteger),
    Column("preempted", Integer, nullable=False, server_default="0"),
)
Index("sessions_number", sessions.c.number, unique=True)
Index("sessions_live_name", sessions.c.owner, sessions.c.name, unique=True, sqlite_where=LIVE, postgresql_where=LIVE)
Index("sessions_live", sessions.c.number, sqlite_where=LIVE, postgresql_where=LIVE)
Index("sessions_live_owner", sessions.c.owner, sessions.c.number, sqlite_where=LIVE, postgresql_where=LIVE)
Index("sessions_holding", sessions.c.owner, sessions.c.number, sqlite_where=HOLDING, postgresql_where=HOLDING)
Index("sessions_owner", sessions.c.owner, sessions.c.number)
Index("sessions_name", sessions.c.name, sessions.c.owner, sessions.c.number)
Index("sessions_phase", sessions.c.phase)

events = Table(
    "events",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("session_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("what", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("actor", Text, nullable=False),
    sqlite_autoincrement=True,  # a number is never given twice, even after old events were removed
)
Index("events_session", events.c.session_id, events.c.number)
Index("events_owner", events.c.owner, events.c.number)

holds = Table(
    "holds",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("session_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("team", Text),
    Column("seat", Text, nullable=False),
    Column("gpu_parts", BigInteger, nullable=False),
    Column("charge_parts", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("image", Text),  # written when its session is forgotten; until then the session tells
    sqlite_autoincrement=True,
)
Index("holds_owner", holds.c.owner, holds.c.until)
Index("holds_session", holds.c.session_id)
Index("holds_until", holds.c.until)

usage = Table(
    "usage",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("gpu_seconds", Float(53), nullable=False),
    Column("as_of", BigInteger, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_hash", Text, nullable=False),
    Column("session_ids", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index("idempotency_keys_at", idempotency_keys.c.at)

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("team", Text),
    Column("uid", BigInteger, nullable=False, server_default="0"),
    Column("share", Float(53), nullable=False, server_default="1"),
)

teams = Table(
    "teams",
    metadata,
    Column("name", Text, primary_key=True),
    Column("share", Float(53), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# What a user or team may hold at most, of one kind of GPU or of any (`*`).
quotas = Table(
    "quotas",
    metadata,
    Column("of", Text, primary_key=True),  # user:NAME, team:NAME, user:* or team:*
    Column("gpu_kind", Text, primary_key=True),
    Column("gpu_parts", BigInteger),
    Column("gpu_hours_week", Float(53)),
    Column("sessions", Integer),
    Column("disk_bytes", BigInteger),  # of users alone, and of any kind
)

bookings = Table(
    "bookings",
    metadata,
    Column("id", Text, primary_key=True),
    Column("title", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("who", Text, nullable=False),  # JSON: user:NAME, team:NAME
    Column("gpus", Text, nullable=False),  # JSON: UUIDs
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)
Index("bookings_end", bookings.c.end)

# Images that were made here from sessions. What lies on a machine is the engine's to tell; this is what it cannot know.
images = Table(
    "images",
    metadata,
    Column("name", Text, primary_key=True),
    Column("image_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("made_from", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("session_name", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("packages", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("decided_by", Text),
)
Index("images_owner", images.c.owner)

image_uses = Table(
    "image_uses",
    metadata,
    Column("name", Text, primary_key=True),
    Column("used_at", BigInteger, nullable=False),
    Column("used_by", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("label", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)
Index("tokens_hash", tokens.c.hash, unique=True)
Index("tokens_user", tokens.c.user)

keys = Table(
    "keys",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("text", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("added_at", BigInteger, nullable=False),
)
Index("keys_user", keys.c.user)

# Hosts whose agents may report. Those that ask and were not accepted yet are kept in memory: they ask again.
agents = Table(
    "agents",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key", Text, nullable=False),
    Column("accepted_at", BigInteger, nullable=False),
    Column("accepted_by", Text, nullable=False),
)

# The history of readings: see history.py. Reports as they came, until they are folded into blocks and a while after.
reading_subjects = Table(
    "reading_subjects",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("node", Text, nullable=False),
)
Index("reading_subjects_name", reading_subjects.c.kind, reading_subjects.c.name, reading_subjects.c.node, unique=True)

reading_reports = Table(
    "reading_reports",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("node", BigInteger, nullable=False),  # the number of its subject
    Column("at", BigInteger, nullable=False),
    Column("arrived_at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("sent_at", BigInteger),  # by the clock of its host, which may be wrong: so a report that is sent again is known
    Column("tenths", Integer),  # of a second, that it stands for
    sqlite_autoincrement=True,  # a number never comes again, so what is folded is told by the last one that was
)
Index("reading_reports_node_at", reading_reports.c.node, reading_reports.c.at)
Index("reading_reports_node_sent", reading_reports.c.node, reading_reports.c.sent_at, unique=True)
Index("reading_reports_node", reading_reports.c.node, reading_reports.c.number)
Index("reading_reports_arrived", reading_reports.c.arrived_at)

reading_folds = Table(
    "reading_folds",
    metadata,
    Column("node", BigInteger, primary_key=True, autoincrement=False),
    Column("report", BigInteger, nullable=False),  # this one and those before it are in the blocks
)

reading_blocks = Table(
    "reading_blocks",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=True),
    Column("subject", BigInteger, nullable=False),
    Column("step_s", Integer, nullable=False),
    Column("start", BigInteger, nullable=False),  # seconds since 1970
    Column("body", LargeBinary, nullable=False),
)
Index("reading_blocks_place", reading_blocks.c.subject, reading_blocks.c.step_s, reading_blocks.c.start, unique=True)
Index("reading_blocks_age", reading_blocks.c.step_s, reading_blocks.c.start)

drained = Table("drained", metadata, Column("node", Text, primary_key=True), Column("why", Text, nullable=False))

# How GPUs are shared, by UUID, kind or `*`; and the last self-test of each GPU in each way of sharing it.
share_rules = Table(
    "share_rules",
    metadata,
    Column("of", Text, primary_key=True),
    Column("fgpu_parts", BigInteger),
    Column("sharing", Text),
)

isolation_tests = Table(
    "isolation_tests",
    metadata,
    Column("gpu", Text, primary_key=True),
    Column("sharing", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("driver", Text),
    Column("attempts", Text, nullable=False),
)

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

# One row. Made before any migration, by leader.py: who may not write may not migrate either.
leader = Table(
    "leader",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
)
