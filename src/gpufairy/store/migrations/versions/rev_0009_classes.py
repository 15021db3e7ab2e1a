"""Classes, who is in them, and links that let students in once."""
from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Text

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "classes",
        Column("name", Text, primary_key=True),
        Column("team", Text, nullable=False),
        Column("start", BigInteger, nullable=False),
        Column("end", BigInteger, nullable=False),
        Column("made_at", BigInteger, nullable=False),
        Column("made_by", Text, nullable=False),
        Column("due", BigInteger),
        Column("preset", Text),
        Column("gpus", Text),
        Column("image", Text),
        Column("quota", Text, nullable=False),
        Column("each", Text, nullable=False),
        Column("teachers", Text, nullable=False),
        Column("homes", Text, nullable=False),
        Column("closing_at", BigInteger),
        Column("archived_at", BigInteger),
        Column("frozen", Boolean, nullable=False),
    )
    op.create_table(
        "class_members",
        Column("of", Text, primary_key=True),
        Column("user", Text, primary_key=True),
        Column("full_name", Text, nullable=False),
        Column("email", Text, nullable=False),
        Column("key", Text, nullable=False),
        Column("standing", Text, nullable=False),
        Column("made_here", Boolean, nullable=False),
        Column("team_before", Text),
        Column("reset_at", BigInteger),
    )
    op.create_index("class_members_user", "class_members", ["user"])
    op.create_table(
        "class_links",
        Column("hash", Text, primary_key=True),
        Column("of", Text, nullable=False),
        Column("user", Text, nullable=False),
        Column("made_at", BigInteger, nullable=False),
        Column("until", BigInteger, nullable=False),
    )
    op.create_index("class_links_user", "class_links", ["user"], unique=True)
