"""What the apps' part of the gateway asks the server: which apps are open, whether a ticket is good, and the way into a session."""
from dataclasses import dataclass
from typing import Protocol

from gpufairy.client.protocol import ANSWER_LIMIT_S, Call, path_of
from gpufairy.core.apps import Stall
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.core.purpose import Purpose
from gpufairy.engines.contract import Door
from gpufairy.gateway.knock import FIRST_WAIT_S
from gpufairy.gateway.seam import Waiting
from gpufairy.gateway.server_client import POLL_S, TRY_AGAIN, HttpHouse


@dataclass(frozen=True, slots=True)
class OpenApps:
    revision: str
    stalls: tuple[Stall, ...]
    gone_tokens: frozenset[str] = frozenset()  # whoever came in by one of these must go


class AppsHouse(Protocol):
    async def open_apps(self, after: str) -> OpenApps: ...  # when they differ from that revision, or after a while. Raises FairyError
    # Uses it up, and gives the id of the token that it was asked for with, if there is one. Raises FairyError: it is not good.
    async def redeem(self, ticket: str, stall: Stall) -> str | None: ...
    async def door_of(self, stall: Stall) -> Door: ...  # raises FairyError: the session does not run, or is another by now
    async def close(self) -> None: ...


class HttpAppsHouse(HttpHouse):
    async def open_apps(self, after: str) -> OpenApps:
        answer = await self._call(Call("GET", path_of("gateway", "apps", after=after), limit_s=POLL_S + ANSWER_LIMIT_S))
        try:
            stalls = tuple(Stall(**{name: plain[name] for name in Stall.__dataclass_fields__}) for plain in answer["stalls"])
            return OpenApps(str(answer["revision"]), stalls, frozenset(map(str, answer.get("gone_tokens", ()))))
        except (LookupError, TypeError, ValueError) as error:
            found = f"the server sent a list of apps that cannot be read: {type(error).__name__} {error}"
            raise BadInput(found[:300], TRY_AGAIN) from error

    async def redeem(self, ticket: str, stall: Stall) -> str | None:
        answer = await self._call(Call("POST", path_of("gateway", "tickets"), {"ticket": ticket, "stall": stall.id}))
        token_id = answer.get("token_id")
        return None if token_id is None else str(token_id)

    async def door_of(self, stall: Stall) -> Door:
        entry = await self.enter(stall.owner, stall.session, Purpose.SHELL, FIRST_WAIT_S)  # a page that must wait looks again by itself
        if isinstance(entry, Waiting):
            raise Conflict(entry.words)
        if entry.session_id != stall.session_id:
            raise Conflict(f"session {stall.session} is over, and another has its name")
        return entry.door
