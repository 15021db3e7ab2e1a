"""What the gateway needs of the server: who may come in, and the door to a session. Over HTTP in server_client.py, faked in tests."""
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from gpufairy.engines.contract import Door


class Purpose(StrEnum):
    SHELL = "shell"  # needs a session, which is started if there is none
    FILES = "files"  # needs the user's folders alone


@dataclass(frozen=True, slots=True)
class Ending:
    """A session that will soon be stopped by its limit."""

    session_id: str
    owner: str
    name: str
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Roster:
    """Everybody who may come in. Who is not in it, is out."""

    revision: int
    keys: Mapping[str, frozenset[bytes]]  # public keys as they go over the wire, by user
    endings: tuple[Ending, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """An open door. No session: it leads to the user's folders alone."""

    door: Door
    session_id: str = ""
    session_name: str = ""
    greeting: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not yet: why, where in line, when about. Ask again."""

    words: str


class House(Protocol):
    async def roster(self, after: int) -> Roster: ...  # when it differs from that revision, or after a while. Raises FairyError
    async def enter(self, user: str, name: str | None, purpose: Purpose) -> Entry | Waiting: ...  # waits a while itself. Raises FairyError
    async def close(self) -> None: ...
