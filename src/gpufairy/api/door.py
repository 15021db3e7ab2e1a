"""What every request passes: is it small enough, who sends it, may they. Then the route."""
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, HTTPConnection, Request

from gpufairy.api.policy import POLICY, WEBSOCKET, Who
from gpufairy.api.problems import problem
from gpufairy.control.links import PAGE_COOKIE
from gpufairy.control.registry import GATEWAY_SCOPE, PAGE_SCOPE, SIGN_IN_AGAIN, Caller, Registry
from gpufairy.core.errors import BadInput, NotAllowed, NotSignedIn

LARGEST_NUMBER = 2**63 - 1  # of a query: what the database and the kernel take
LARGEST_BODY = 1 << 20  # 1 MiB: a session with all its environment is a few KiB
LOOPBACK = ("127.0.0.1", "::1")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class BodyLimit:
    """Reads no more of a body than we take: a larger one is answered at once and not kept."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            await self._too_large(scope, receive, send)
            return
        seen = 0

        async def counted() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > LARGEST_BODY:
                raise BadInput("the body is larger than 1 MiB", "Send less: put data into files, not into the request.")
            return message

        await self._app(scope, counted, send)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem(413, "Too large", "the body is larger than 1 MiB", "Send less: put data into files, not into the request.")
        await answer(scope, receive, send)


def guard(registry: Registry, url: str) -> Callable[[HTTPConnection], Awaitable[None]]:
    """The check that stands before every route, WebSockets too; leaves the caller in `request.state.caller`."""

    async def check(request: HTTPConnection) -> None:
        who = row_of(request)
        if who in (Who.ANYONE, Who.AGENT) or (who is Who.LOCAL and is_local(request)):
            return
        if who is Who.PAGE and method_of(request) == WEBSOCKET:
            check_own_page(request, url)
        caller = registry.caller(token_of(request, who))
        request.state.caller = caller
        if not allows(who, caller):
            raise NotAllowed(f"{method_of(request)} {request.url.path} is not for {words(caller)}", "Ask an admin.")

    return check


def still_allowed(registry: Registry, request: HTTPConnection) -> Callable[[], bool]:
    """For streams, which outlive the check at their beginning: whether it would come out no worse now."""
    who, then = row_of(request), caller_of(request)
    token = token_of(request, who)

    def look() -> bool:
        try:
            now = registry.caller(token)
        except NotSignedIn:
            return False
        return allows(who, now) and (now.is_admin or not then.is_admin)

    return look


def row_of(request: HTTPConnection) -> Who:
    method = method_of(request)
    who = POLICY[method if method != "HEAD" else "GET", request.scope["route"].path]
    if who is not Who.BROWSER:
        return who
    return Who.SIGNED_IN if "authorization" in request.headers else Who.PAGE


def method_of(request: HTTPConnection) -> str:
    return str(request.scope.get("method", WEBSOCKET))


def token_of(request: HTTPConnection, who: Who) -> str:
    """Never both: a cookie comes along by itself, so a page elsewhere could use the API with it."""
    return page_cookie(request) if who is Who.PAGE else bearer(request)


def check_own_page(request: HTTPConnection, url: str) -> None:
    """Browsers let any page open a socket to us, and send our cookie along: the page that asks must be ours, to the letter."""
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    # People reach the server by names it does not know of, and a proxy may speak TLS for it: so either will do.
    own = {f"{scheme}://{request.headers.get('host', '')}", "{0.scheme}://{0.netloc}".format(urlsplit(url))}
    if request.headers.get("origin") not in own:
        raise NotAllowed("a page of another site asked for this, or the browser does not say which", "Open it on the page itself.")


def allows(who: Who, caller: Caller) -> bool:
    match who:
        case Who.ADMIN:
            return caller.is_admin
        case Who.PERSON:
            return caller.scope == "full"
        case Who.SIGNED_IN | Who.BROWSER:
            return caller.scope in ("full", "session")
        case Who.GATEWAY:
            return caller.scope == GATEWAY_SCOPE
        case Who.PAGE:
            return caller.scope == PAGE_SCOPE
        case Who.LOCAL:
            return caller.scope == "metrics" or caller.is_admin
        case Who.ANYONE | Who.AGENT:
            return True


def words(caller: Caller) -> str:
    if caller.scope == "session":
        return f"a session of {caller.user.name}"
    return f"{caller.user.name}, whose role is {caller.user.role}" if caller.scope == "full" else f"a token for {caller.scope} alone"


def is_local(request: HTTPConnection) -> bool:
    """By the address the connection comes from; a proxy in front hides that, so what a proxy passes on is not local."""
    forwarded = any(name in request.headers for name in ("forwarded", "x-forwarded-for"))
    return request.client is not None and request.client.host in LOOPBACK and not forwarded


def bearer(request: HTTPConnection) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise NotSignedIn("this needs a token, and none was sent", SIGN_IN_AGAIN)
    return token.strip()


def page_cookie(request: HTTPConnection) -> str:
    token = request.cookies.get(PAGE_COOKIE, "")
    if not token:
        raise NotSignedIn("this browser is not signed in", "Open a sign-in link.")
    return token


def caller_of(request: HTTPConnection) -> Caller:
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller


async def json_body(request: Request) -> Any:
    body = await whole_body(request)
    try:
        return json.loads(body or b"{}", parse_constant=no_such_number)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the body is no JSON: {str(error)[:200]}", 'Send an object such as {"gpus": "0.5"}.') from None


async def whole_body(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect:
        raise BadInput("the connection ended in the middle of the body", "Send it again, whole and within a minute.") from None


def no_such_number(name: str) -> None:
    raise ValueError(f"{name} is no number")
