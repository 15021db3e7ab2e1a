"""A small OpenID Connect provider on loopback, which lies where a test tells it to."""
import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

CLIENT, SECRET = "gpufairy", "a secret of the client"


@dataclass
class Provider:
    claims: dict[str, Any] = field(default_factory=lambda: {"preferred_username": "kim"})
    algorithm: str = "RS256"
    signs_with: Any = None  # None: a key that it tells of
    discovery: dict[str, Any] = field(default_factory=dict)  # in place of what it would say
    status: int = 200
    asked: dict[str, dict[str, str]] = field(default_factory=dict)  # by code: what the browser was sent with
    key_calls: int = 0
    url: str = ""
    host: str = "127.0.0.1"  # as it calls itself

    def __post_init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self._others = [OctKey.generate_key(256), ECKey.generate_key("P-256", {"kid": "two", "use": "enc"})]

    async def __aenter__(self) -> "Provider":
        app = web.Application()
        app.add_routes([
            web.get("/.well-known/openid-configuration", self._discovery), web.get("/keys", self._keys), web.post("/token", self._token),
            web.get("/authorize", self._authorize),
        ])  # fmt: skip
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://{self.host}:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def visited(self, url: str) -> tuple[str, str]:
        """As if the browser went there and its user said yes: the code and the state that it comes back with."""
        sent = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        code = secrets.token_hex(8)
        self.asked[code] = sent
        return code, sent["state"]

    async def _authorize(self, request: web.Request) -> web.Response:
        """Its user is signed in there, and says yes at once."""
        code, state = self.visited(str(request.url))
        return web.Response(status=302, headers={"Location": f"{request.query['redirect_uri']}?{urlencode({'code': code, 'state': state})}"})

    async def _discovery(self, _: web.Request) -> web.Response:
        told = {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys", **self.discovery,
        }  # fmt: skip
        return web.json_response(told)

    async def _keys(self, _: web.Request) -> web.Response:
        self.key_calls += 1
        return web.json_response({"keys": [self.key.as_dict(private=False), *(key.as_dict() for key in self._others)]})

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.asked.pop(str(form["code"]), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(str(form["code_verifier"]).encode()).digest()).decode().rstrip("=")
        basic = base64.b64encode(f"{CLIENT}:{quote_plus(SECRET)}".encode()).decode()
        known = request.headers.get("Authorization") == f"Basic {basic}" or form.get("client_secret") == SECRET
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"] or not known:
            return web.json_response({"error": "invalid_grant"}, status=400)
        claims = {"iss": self.url, "aud": CLIENT, "exp": 2_000_000_000, "iat": 1_700_000_000, "nonce": asked["nonce"], "sub": "7", **self.claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        signed = jwt.encode({"alg": self.algorithm, "kid": self.key.kid}, claims, self.signs_with or self.key, algorithms=[self.algorithm])
        return web.json_response({"id_token": signed, "access_token": "x", "token_type": "Bearer"}, status=self.status)
