"""What people in a session are told: that it will soon be stopped by its limit, or that something is asked back of it."""
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Ending:
    session_id: str
    owner: str
    name: str
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Notice:
    session_id: str
    words: str
