"""Whom a command speaks to: what was said before it (`fairy --server URL --token-file FILE ps`), else what `connection.find` finds."""
import os
from dataclasses import dataclass
from pathlib import Path

from gpufairy.client.connection import find
from gpufairy.client.sync import Fairy


@dataclass(frozen=True, slots=True)
class Where:
    server: str | None = None
    token_file: Path | None = None


def connect_to(said: object, limit_s: float | None = None) -> Fairy:
    """`said`: the Where that the command line left for its command; anything else counts as nothing said."""
    where = said if isinstance(said, Where) else Where()
    found = find(where.server, where.token_file, os.environ)
    return Fairy(found.url, found.token, limit_s)
