"""What sessions in containers need: a uid for each user, images made here, the image a swap may go back to."""
from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("users", Column("uid", BigInteger, nullable=False, server_default="0"))
    op.add_column("sessions", Column("swapped_from", Text))
    op.create_table(
        "images",
        Column("name", Text, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("image_id", "owner", "made_from", "session_id", "session_name")),
        Column("size_bytes", BigInteger, nullable=False),
        Column("packages", Text, nullable=False),
        Column("state", Text, nullable=False),
        Column("made_at", BigInteger, nullable=False),
        Column("decided_by", Text),
    )
    op.create_index("images_owner", "images", ["owner"])
    op.create_table(
        "image_uses",
        Column("name", Text, primary_key=True),
        Column("used_at", BigInteger, nullable=False),
        Column("used_by", Text, nullable=False),
    )
