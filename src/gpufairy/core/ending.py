"""A session that will soon be stopped by its limit: people in it are warned."""
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Ending:
    session_id: str
    owner: str
    name: str
    ends_at: datetime
