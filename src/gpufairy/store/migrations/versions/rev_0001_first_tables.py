"""The first tables. Written out, not taken from tables.py: a migration must still do the same when that has moved on."""
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Integer, Text, text

revision = "0001"
down_revision = None

LIVE = "phase <> 'ended'"
HOLDING = "phase NOT IN ('ended', 'queued')"


def upgrade() -> None:
    make_sessions()
    make_history()
    make_people()
    op.create_table("drained", Column("node", Text, primary_key=True), must("why"))
    op.create_table("meta", Column("name", Text, primary_key=True), must("value"))


def make_sessions() -> None:
    op.create_table(
        "sessions",
        Column("id", Text, primary_key=True),
        *(must(name) for name in ("name", "owner", "kind", "request")),
        *(must(name, BigInteger) for name in ("submitted_at", "since", "number")),
        Column("team", Text),
        must("priority", Integer),
        *(must(name) for name in ("wanted", "stop_outcome", "stop_why", "phase", "why")),
        Column("outcome", Text),
        Column("exit_code", Integer),
        Column("seat", Text),
        *(must(name, Integer) for name in ("attempt", "refusals")),
        must("revision", BigInteger),
        *(Column(name, BigInteger) for name in ("placed_at", "started_at", "ended_at")),
    )
    op.create_index("sessions_number", "sessions", ["number"], unique=True)
    # Of indexes that would do equally well SQLite takes the one made last: so the smaller come after the larger.
    op.create_index("sessions_owner", "sessions", ["owner", "number"])
    op.create_index("sessions_live_name", "sessions", ["owner", "name"], unique=True, **where(LIVE))
    op.create_index("sessions_live", "sessions", ["number"], **where(LIVE))
    op.create_index("sessions_live_owner", "sessions", ["owner", "number"], **where(LIVE))
    op.create_index("sessions_holding", "sessions", ["owner", "number"], **where(HOLDING))
    op.create_index("sessions_name", "sessions", ["name", "owner", "number"])
    op.create_index("sessions_phase", "sessions", ["phase"])
    op.create_table(
        "idempotency_keys",
        *(Column(name, Text, primary_key=True) for name in ("owner", "key")),
        *(must(name) for name in ("body_hash", "session_ids")),
        must("at", BigInteger),
    )
    op.create_index("idempotency_keys_at", "idempotency_keys", ["at"])


def make_history() -> None:
    op.create_table(
        "events",
        row_number(),
        *(must(name) for name in ("session_id", "owner", "name")),
        must("at", BigInteger),
        *(must(name) for name in ("what", "phase", "why")),
        must("attempt", Integer),
        must("actor"),
        sqlite_autoincrement=True,
    )
    op.create_index("events_session", "events", ["session_id", "number"])
    op.create_index("events_owner", "events", ["owner", "number"])
    op.create_table(
        "holds",
        row_number(),
        must("session_id"),
        must("attempt", Integer),
        must("owner"),
        Column("team", Text),
        must("seat"),
        *(must(name, BigInteger) for name in ("gpu_parts", "charge_parts", "since", "until")),
        sqlite_autoincrement=True,
    )
    op.create_index("holds_owner", "holds", ["owner", "until"])
    op.create_index("holds_session", "holds", ["session_id"])
    op.create_table("usage", Column("owner", Text, primary_key=True), must("gpu_seconds", Float(53)), must("as_of", BigInteger))


def make_people() -> None:
    op.create_table(
        "users",
        Column("name", Text, primary_key=True),
        must("role"),
        must("created_at", BigInteger),
        must("disabled", Boolean),
        Column("team", Text),
    )
    op.create_table(
        "tokens",
        Column("id", Text, primary_key=True),
        Column("user", Text, ForeignKey("users.name"), nullable=False),
        *(must(name) for name in ("label", "hash", "scope")),
        must("created_at", BigInteger),
        *(Column(name, BigInteger) for name in ("expires_at", "revoked_at")),
    )
    op.create_index("tokens_hash", "tokens", ["hash"], unique=True)
    op.create_index("tokens_user", "tokens", ["user"])
    op.create_table(
        "keys",
        Column("fingerprint", Text, primary_key=True),
        Column("user", Text, ForeignKey("users.name"), nullable=False),
        *(must(name) for name in ("text", "comment")),
        must("added_at", BigInteger),
    )
    op.create_index("keys_user", "keys", ["user"])


def where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


def must(name: str, kind: Any = Text) -> Column[Any]:
    return Column(name, kind, nullable=False)


def row_number() -> Column[Any]:
    return Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True)
