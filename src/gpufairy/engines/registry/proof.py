"""What a registry wants to be shown with each question: a password, or a token that another server gives for it."""
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.engines.registry.logins import RegistryAccess

ANSWER_S = 30.0
USUAL_LIFE_S, SPARE_S = 60.0, 15.0  # of a token that does not say how long it lasts; and what must be left of it to be shown
LARGEST_ANSWER = 2**20
_PART = re.compile(r'([a-z]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Challenge:
    """How a registry wants to be told who asks."""

    bearer: bool
    realm: str = ""
    service: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    good_until_s: float = 0.0


class Proofs:
    def __init__(self, session: aiohttp.ClientSession, access: RegistryAccess) -> None:
        self._session, self._access = session, access
        self._challenges: dict[str, Challenge] = {}
        self._tokens: dict[tuple[str, str], Token] = {}

    def heard(self, host: str, told: str) -> None:
        """What the header WWW-Authenticate said."""
        parts = dict(_PART.findall(told))
        self._challenges[host] = Challenge(told.lower().startswith("bearer"), parts.get("realm", ""), parts.get("service", ""))
        self._tokens = {key: token for key, token in self._tokens.items() if key[0] != host}

    async def headers(self, host: str, scope: str) -> Mapping[str, str]:
        """`scope`: repository:NAME:pull,push. Raises EngineRefused, EngineSilent."""
        challenge = self._challenges.get(host)
        if challenge is None:
            return {}
        if not challenge.bearer:
            login = self._access.login(host)
            return {} if login is None else {"Authorization": login.basic}
        token = self._tokens.get((host, scope))
        if token is None or token.good_until_s < time.monotonic():
            token = self._tokens[host, scope] = await self._given(host, scope, challenge)
        return {"Authorization": f"Bearer {token.text}"}

    async def _given(self, host: str, scope: str, challenge: Challenge) -> Token:
        """The registry says who gives tokens: a password goes there by TLS alone, unless the registry itself is spoken to without."""
        realm, plain = urlsplit(challenge.realm), self._access.address(host).startswith("http:")
        if realm.scheme != "https" and not (plain and realm.scheme == "http"):
            raise EngineRefused(f"registry {host} sends us to {challenge.realm[:200]!r} for a token, which is no address by TLS")
        login = self._access.login(host)
        headers = {} if login is None else {"Authorization": login.basic}
        query = {"service": challenge.service, "scope": scope}
        try:
            async with self._session.get(
                challenge.realm, params=query, headers=headers, allow_redirects=False, timeout=aiohttp.ClientTimeout(ANSWER_S)
            ) as answer:  # fmt: skip
                text = await answer.content.read(LARGEST_ANSWER)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            silent = f"{realm.netloc}, who gives tokens for registry {host}, does not answer: {words(error)}"
            raise EngineSilent(silent, "Try again.") from error
        if status != 200:
            who = "nobody in particular" if login is None else login.user
            raise EngineRefused(f"registry {host} gives {who} no right to {scope} ({realm.netloc} answered {status})", LOOK_AT_LOGINS)
        return token_of(text, host)


def token_of(text: bytes, host: str) -> Token:
    try:
        told = json.loads(text)
        life_s = float(told.get("expires_in") or USUAL_LIFE_S)
        return Token(str(told.get("token") or told["access_token"]), time.monotonic() + life_s - SPARE_S)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise EngineRefused(f"what gives tokens for registry {host} answered with no token") from error


def words(error: BaseException) -> str:
    return str(error) or type(error).__name__


LOOK_AT_LOGINS = "Look at the login for it in the file of [kubernetes] registry_logins, and at what that user may do."
