"""What the gateway needs of the server: who may come in, and the door to a session. Over HTTP in server_client.py, faked in tests."""
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpufairy.core.ending import Ending, Notice
from gpufairy.core.limits import Limit
from gpufairy.core.purpose import Purpose
from gpufairy.engines.contract import Door


@dataclass(frozen=True, slots=True)
class Roster:
    """Everybody who may come in. Who is not in it, is out."""

    revision: int
    keys: Mapping[str, frozenset[bytes]]  # public keys as they go over the wire, by user
    endings: tuple[Ending, ...] = ()
    notices: tuple[Notice, ...] = ()


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
    # The server waits so long for it to open. Raises FairyError.
    async def enter(self, user: str, name: str | None, purpose: Purpose, wait_s: float) -> Entry | Waiting: ...
    async def sign_in_link(self, user: str) -> str: ...  # to the page, once. Raises FairyError
    async def tell_refusals(self, counts: Mapping[Limit, int]) -> None: ...  # raises FairyError
    async def close(self) -> None: ...
