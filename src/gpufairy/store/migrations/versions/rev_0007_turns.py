"""Teams with shares, quotas, bookings, and where each session is on the reclaim ladder."""
from alembic import op
from sqlalchemy import BigInteger, Column, Float, Integer, Text

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("sessions", Column("idle_step", Text, nullable=False, server_default=""))
    op.add_column("sessions", Column("idle_since", BigInteger))
    op.add_column("sessions", Column("kept_until", BigInteger))
    op.add_column("sessions", Column("preempted", Integer, nullable=False, server_default="0"))
    op.add_column("users", Column("share", Float(53), nullable=False, server_default="1"))
    op.create_table(
        "teams",
        Column("name", Text, primary_key=True),
        Column("share", Float(53), nullable=False),
        Column("created_at", BigInteger, nullable=False),
    )
    op.create_table(
        "quotas",
        Column("of", Text, primary_key=True),
        Column("gpu_kind", Text, primary_key=True),
        Column("gpu_parts", BigInteger),
        Column("gpu_hours_week", Float(53)),
        Column("sessions", Integer),
    )
    op.create_table(
        "bookings",
        Column("id", Text, primary_key=True),
        Column("title", Text, nullable=False),
        Column("made_by", Text, nullable=False),
        Column("who", Text, nullable=False),
        Column("gpus", Text, nullable=False),
        Column("start", BigInteger, nullable=False),
        Column("end", BigInteger, nullable=False),
        Column("made_at", BigInteger, nullable=False),
    )
    op.create_index("bookings_end", "bookings", ["end"])
