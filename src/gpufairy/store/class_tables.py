"""Tables of classes, beside those of tables.py: the classes, who is in them, and the links that let students in once."""
from sqlalchemy import BigInteger, Boolean, Column, Index, Table, Text

from gpufairy.store.tables import metadata

classes = Table(
    "classes",
    metadata,
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
    Column("quota", Text, nullable=False),  # JSON, as is the next
    Column("each", Text, nullable=False),
    Column("teachers", Text, nullable=False),  # JSON: users
    Column("homes", Text, nullable=False),
    Column("closing_at", BigInteger),
    Column("archived_at", BigInteger),
    Column("frozen", Boolean, nullable=False),
)

class_members = Table(
    "class_members",
    metadata,
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
Index("class_members_user", class_members.c.user)

# One at most of each student: what is kept of a link cannot be read back, and goes when it is used.
class_links = Table(
    "class_links",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("of", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
)
Index("class_links_user", class_links.c.user, unique=True)
