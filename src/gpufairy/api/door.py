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
from gpufairy.core.errors import BadInput, NotAllowed, NotSignedIn, TooLarge
from gpufairy.core.limits import Limit, Refusals
from gpufairy.core.people import Role

LARGEST_NUMBER = 2**63 - 1  # of a query: what the database and the kernel take
LARGEST_BODY = 1 << 20  # 1 MiB: a session with all its environment is a few KiB
LOOPBACK = ("127.0.0.1", "::1")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class BodyLimit:
    """Reads no more of a body than we take: a larger one is answered at once and not kept."""

    def __init__(self, app: App, refusals: Refusals) -> None:
        self._app, self._refusals = app, refusals

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
                self._refusals.count(Limit.BODY_SIZE)
                raise TooLarge("the body is larger than 1 MiB", "Send less: put data into files, not into the request.")
            return message

        await self._app(scope, counted, send)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._refusals.count(Limit.BODY_SIZE)
        answer = problem(413, "Too large", "the body is larger than 1 MiB", "Send less: put data into files, not into the request.")
        await answer(scope, receive, send)


class StreamPlaces:
    """Gives back the place that a route took for its stream, however the stream ends: a client that vanishes ends no generator."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.setdefault("state", {})
        try:
            await self._app(scope, receive, send)
        finally:
            give_back = state.pop("give_back", None)
            if give_back is not None:
                give_back()


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
            raise not_allowed(request, who, caller)

    return check


def not_allowed(request: HTTPConnection, who: Who, caller: Caller) -> NotAllowed:
    if who is Who.ADMIN_PAGE and caller.scope == PAGE_SCOPE:
        return NotAllowed(f"this page is for admins, and {caller.user.name} is none", "Ask an admin to do it, or to make you one.")
    return NotAllowed(f"{method_of(request)} {request.url.path} is not for {words(caller)}", "Ask an admin.")


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


def check_still_allowed(registry: Registry, request: HTTPConnection) -> None:
    """For answers that were long in coming: whoever was shut out meanwhile is told nothing more."""
    if not still_allowed(registry, request)():
        raise NotSignedIn("this token is not known, has expired or was revoked", SIGN_IN_AGAIN)


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
    return page_cookie(request) if who in (Who.PAGE, Who.ADMIN_PAGE) else bearer(request)


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
        case Who.ADMIN_PAGE:
            return caller.scope == PAGE_SCOPE and caller.user.role is Role.ADMIN
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
    words = (word.strip().partition("=") for line in request.headers.getlist("cookie") for word in line.split(";"))
    if len({value for name, _, value in words if name == PAGE_COOKIE}) > 1:
        # Pages of other ports and of sibling hosts can set cookies here, which browsers send beside ours: whose is whose, nobody can tell.
        raise NotSignedIn("this browser was given a second sign-in by a page that is not ours", "Clear this site's cookies; then sign in.")
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
