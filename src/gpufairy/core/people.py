"""People: who may do what here, and by which token or SSH key we know them. Secrets are never here, only their hashes."""
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role
    created_at: datetime
    disabled: bool = False
    team: str | None = None
    uid: int = 0  # in containers and on folders: theirs alone, never given to anybody else. 0: not given yet
    share: float = 1.0  # of their team's part; of who has no team, against the teams


@dataclass(frozen=True, slots=True)
class Token:
    id: str
    user: str
    label: str
    hash: str
    scope: str
    created_at: datetime
    expires_at: datetime | None = None  # None: good until revoked
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """One public SSH key."""

    fingerprint: str
    user: str
    text: str
    comment: str
    added_at: datetime
