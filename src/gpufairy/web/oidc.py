"""Signing in by OpenID Connect: code flow with PKCE, state and nonce. What the provider says is checked before it is believed.

Foreign errors end here. What is under way is kept in memory: a restart makes people click once more.
"""
import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from gpufairy.control.clock import Clock
from gpufairy.core.errors import Busy, NotAllowed, NotSignedIn
from gpufairy.wire.oidc import OidcSettings
from gpufairy.wire.tls import trust_machine

ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA"]  # never `none`, and none with a shared secret: our secret signs nobody in
PATIENCE_S = 10.0
LARGEST_ANSWER = 1 << 20
UNDER_WAY_FOR = timedelta(minutes=10)
MOST_UNDER_WAY = 10_000
KEYS_GOOD_FOR = timedelta(hours=1)
KEYS_AGAIN_AFTER = timedelta(minutes=1)  # with a key that is not known, at the soonest: a stranger must not make us ask all the time
CLOCKS_APART_S = 60
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
ONCE_MORE = "Try to sign in once more."


@dataclass(frozen=True, slots=True)
class Begun:
    url: str
    state: str


@dataclass(frozen=True, slots=True)
class UnderWay:
    nonce: str
    verifier: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Provider:
    authorize: str
    token: str
    keys: str
    secret_in_body: bool


class Oidc:
    def __init__(self, settings: OidcSettings, url: str, clock: Clock) -> None:
        self.settings, self._clock = settings, clock
        self._back = f"{url}/signin/oidc/back"
        self._under_way: dict[str, UnderWay] = {}  # by state, oldest first
        self._provider: Provider | None = None
        self._keys: KeySet | None = None
        self._keys_at: datetime | None = None

    async def begin(self) -> Begun:
        provider, now = await self._found(), self._clock()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        kept = list(self._under_way.items())[-MOST_UNDER_WAY:]
        self._under_way = {key: one for key, one in kept if one.until > now}
        self._under_way[state] = UnderWay(nonce, verifier, now + UNDER_WAY_FOR)
        asked = {
            "response_type": "code", "client_id": self.settings.client_id, "redirect_uri": self._back,
            "scope": " ".join(self.settings.scopes), "state": state, "nonce": nonce,
            "code_challenge": challenge(verifier), "code_challenge_method": "S256",
        }  # fmt: skip
        joined = "&" if urlsplit(provider.authorize).query else "?"
        return Begun(f"{provider.authorize}{joined}{urlencode(asked)}", state)

    async def finish(self, *, code: str, state: str, of_browser: str, error: str = "") -> str:
        """The name that the provider gives. `of_browser`: the state that this very browser was sent away with."""
        under_way = self._under_way.pop(state, None)
        if under_way is None or under_way.until <= self._clock() or not secrets.compare_digest(state.encode(), of_browser.encode()):
            raise NotSignedIn("this answer belongs to no sign-in that this browser has begun", ONCE_MORE)
        if error or not code:
            raise NotSignedIn(f"{self.settings.title} did not sign you in: {error[:80] or 'no code came'}", ONCE_MORE)
        claims = await self._claims(await self._id_token(code, under_way.verifier), under_way.nonce)
        return name_of(claims, self.settings)

    async def _id_token(self, code: str, verifier: str) -> str:
        provider, settings = await self._found(), self.settings
        sent = {"grant_type": "authorization_code", "code": code, "redirect_uri": self._back, "code_verifier": verifier}
        if provider.secret_in_body:
            sent |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        headers = {} if provider.secret_in_body else {"Authorization": basic(settings.client_id, settings.client_secret)}
        answer = await self._ask("POST", provider.token, headers, data=sent)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise NotSignedIn(f"{settings.title} sent no ID token", "Tell an admin: the scopes must have openid among them.")
        return token

    async def _claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        settings, now = self.settings, self._clock()
        checks = jwt.JWTClaimsRegistry(
            now=int(now.timestamp()), leeway=CLOCKS_APART_S, iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "value": settings.client_id}, exp={"essential": True}, nonce={"essential": True, "value": nonce},
        )  # fmt: skip
        try:
            claims: Mapping[str, Any] = (await self._decoded(token)).claims
            checks.validate(dict(claims))
        except (JoseError, ValueError) as error:
            raise NotSignedIn(f"what {settings.title} sent cannot be believed: {str(error)[:200]}", ONCE_MORE) from error
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != settings.client_id:
            raise NotSignedIn(f"what {settings.title} sent was made for another program", ONCE_MORE)
        return claims

    async def _decoded(self, token: str) -> jwt.Token:
        try:
            return jwt.decode(token, await self._known_keys(KEYS_GOOD_FOR), algorithms=ALGORITHMS)
        except (JoseError, ValueError):  # it may have been signed with a key that is new
            return jwt.decode(token, await self._known_keys(KEYS_AGAIN_AFTER), algorithms=ALGORITHMS)

    async def _known_keys(self, good_for: timedelta) -> KeySet:
        now = self._clock()
        if self._keys is None or self._keys_at is None or now - self._keys_at >= good_for:
            answer = await self._ask("GET", (await self._found()).keys)
            listed = answer.get("keys")
            usable = [key for key in listed if is_usable(key)] if isinstance(listed, list) else []
            self._keys, self._keys_at = KeySet.import_key_set({"keys": usable}), now
        return self._keys

    async def _found(self) -> Provider:
        if self._provider is None:
            issuer = self.settings.issuer
            told = await self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if told.get("issuer") != issuer:
                found = str(told.get("issuer"))[:200]
                raise NotSignedIn(f"the sign-in service calls itself {found!r}, not {issuer!r}", "Mend [oidc] issuer.")
            places = [str(told.get(name, "")) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
            if not all(map(safe_to_ask, places)):
                raise NotSignedIn(f"{issuer} does not say where to sign in, or not by https", "Mend the sign-in service, or [oidc] issuer.")
            ways = told.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            self._provider = Provider(places[0], places[1], places[2], secret_in_body="client_secret_basic" not in ways)
        return self._provider

    async def _ask(self, method: str, url: str, headers: Mapping[str, str] = NO_HEADERS, **sent: Any) -> dict[str, Any]:
        headers = {"Accept": "application/json", **headers}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S), trust_env=True) as http,
                http.request(method, url, headers=headers, ssl=trust_machine(), allow_redirects=False, **sent) as answer,
            ):
                body, status = await answer.content.read(LARGEST_ANSWER), answer.status
            told = json.loads(body)
        except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError) as error:
            found = f"the sign-in service {urlsplit(url).hostname} gave no answer that can be read: {type(error).__name__}"
            raise Busy(found, "Try again in a minute.") from error
        if status != 200 or not isinstance(told, dict):
            said = told.get("error", "") if isinstance(told, dict) else ""
            raise NotSignedIn(f"{self.settings.title} answered {status} {str(said)[:80]}".strip(), ONCE_MORE)
        return told


def name_of(claims: Mapping[str, Any], settings: OidcSettings) -> str:
    """Checked against the groups that may come in, and of the domain that is ours."""
    groups = claims.get(settings.groups_claim, [])
    theirs = {groups} if isinstance(groups, str) else set(map(str, groups)) if isinstance(groups, list) else set()
    if settings.allowed_groups and not theirs & set(settings.allowed_groups):
        raise NotAllowed(f"you are in none of the groups that may come in ({', '.join(settings.allowed_groups[:5])})", "Ask an admin.")
    name = claims.get(settings.user_claim)
    if not isinstance(name, str) or not name:
        raise NotAllowed(f"{settings.title} gave no {settings.user_claim}", "Tell an admin: [oidc] user_claim names what to take.")
    if settings.user_claim == "email" and claims.get("email_verified") is not True:
        raise NotAllowed(f"{settings.title} has not verified your address", "Have it verified there; then sign in again.")
    if not settings.user_domain:
        return name
    local, at, domain = name.rpartition("@")
    if not at or domain.lower() != settings.user_domain.lower():
        raise NotAllowed(f"{name[:80]!r} is not of {settings.user_domain}", "Sign in there with another account.")
    return local


def basic(client_id: str, secret: str) -> str:
    """As OAuth wants it: each is written as in a form first."""
    return "Basic " + base64.b64encode(f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()).decode()


def challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def is_usable(key: object) -> bool:
    """Others' keys are of sorts that we never take: shared secrets, and those for hiding rather than signing."""
    return isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"


def safe_to_ask(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"))
