"""Who must not get in, and how each comes: with a token, with the cookie of a browser, or by asking for a socket."""
import re
from dataclasses import dataclass

from gpufairy.api.policy import POLICY, WEBSOCKET, Who
from raw_http import Answer, ask

OPEN = (Who.ANYONE, Who.LOCAL)
PAGES = (Who.PAGE, Who.ADMIN_PAGE)
HANDSHAKE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    who: Who

    @property
    def filled(self) -> str:
        return re.sub(r"{[^}]*}", "x", self.path)


ROUTES = tuple(Route(method, path, who) for (method, path), who in POLICY.items())
GUARDED = tuple(route for route in ROUTES if route.who not in OPEN)


def come(server, route: Route, secret: str | None, path: str | None = None, body: object = None) -> Answer:
    """As whoever holds the secret would: by the way that this route takes. Pages are asked as by a page of our own."""
    path = path or route.filled
    if route.method == WEBSOCKET:
        return ask(server.url, "GET", path, token=secret, headers=HANDSHAKE)
    if route.who in PAGES:
        cookie = {"Cookie": f"fairy_page={secret}"} if secret else {}
        return ask(server.url, route.method, path, body=body if isinstance(body, bytes) else b"", headers={"Origin": server.url, **cookie})
    return ask(server.url, route.method, path, token=secret, body={} if body is None else body)


def socket_by_cookie(server, path: str, secret: str | None) -> Answer:
    cookie = {"Cookie": f"fairy_page={secret}"} if secret else {}
    return ask(server.url, "GET", path, headers={**HANDSHAKE, "Origin": server.url, **cookie})


def sign_in(server, token: str) -> str:
    """What a browser keeps after somebody pasted their token."""
    answer = ask(server.url, "POST", "/signin", body=f"token={token}".encode(), headers={"Origin": server.url})
    assert answer.status == 303, answer.body
    return re.match(r"fairy_page=([^;]+)", answer.headers["set-cookie"])[1]


def says_why(answer: Answer) -> bool:
    """A refusal is a problem with its next step, or a page; never empty, never a traceback."""
    kind = answer.headers.get("content-type", "")
    if kind == "application/problem+json":
        return bool(answer.json["detail"] and answer.json["next"])
    return kind.startswith("text/html") and b"Traceback" not in answer.body
