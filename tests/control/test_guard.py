"""The guard before every route: whose token opens what, by which way it came, and how large a body may be."""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest
from starlette.requests import HTTPConnection, Request

from builders import NOW
from gpufairy.api.door import (
    LARGEST_BODY,
    LARGEST_NUMBER,
    BodyLimit,
    StreamPlaces,
    allows,
    check_own_page,
    check_still_allowed,
    guard,
    is_local,
    json_body,
    page_cookie,
    row_of,
    still_allowed,
    token_of,
)
from gpufairy.api.policy import API, WEBSOCKET, Who
from gpufairy.control.registry import GATEWAY, GATEWAY_SCOPE, Caller
from gpufairy.core.errors import BadInput, NotAllowed, NotSignedIn
from gpufairy.core.limits import Limit, Refusals
from gpufairy.core.people import Role, User

ANN, KIM = User("ann", Role.USER, NOW), User("kim", Role.ADMIN, NOW)
CALLERS = {
    "user": Caller(ANN, "full"),
    "user inside": Caller(ANN, "session"),
    "user's page": Caller(ANN, "page"),
    "user's metrics": Caller(ANN, "metrics"),
    "admin": Caller(KIM, "full"),
    "admin inside": Caller(KIM, "session"),
    "admin's page": Caller(KIM, "page"),
    "admin's metrics": Caller(KIM, "metrics"),
    "gateway": Caller(GATEWAY, GATEWAY_SCOPE),
}
OPENS = {
    Who.ADMIN: {"admin"},
    Who.PERSON: {"user", "admin"},
    Who.SIGNED_IN: {"user", "user inside", "admin", "admin inside"},
    Who.BROWSER: {"user", "user inside", "admin", "admin inside"},
    Who.GATEWAY: {"gateway"},
    Who.PAGE: {"user's page", "admin's page"},
    Who.ADMIN_PAGE: {"admin's page"},
    Who.LOCAL: {"user's metrics", "admin's metrics", "admin"},
    Who.ANYONE: set(CALLERS),
    Who.AGENT: set(CALLERS),
}


class Tokens:
    """A registry that knows these tokens."""

    def __init__(self, **callers: Caller) -> None:
        self.callers = callers

    def caller(self, token: str) -> Caller:
        if token not in self.callers:
            raise NotSignedIn("not known", "Sign in.")
        return self.callers[token]


def asked(method="GET", path=f"{API}/users", client="10.0.0.9", scheme="http", **headers) -> HTTPConnection:
    sent = [(name.lower().replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "websocket" if method == WEBSOCKET else "http", "scheme": scheme, "path": path, "headers": sent,
        "state": {},
        "client": (client, 1) if client else None, "route": SimpleNamespace(path=path), "query_string": b"",
        "server": ("lab", 8420),
    }  # fmt: skip
    return HTTPConnection(scope if method == WEBSOCKET else {**scope, "method": method})


@pytest.mark.parametrize("who", list(Who))
def test_each_right_is_opened_by_these_callers_and_no_others(who):
    assert {name for name, caller in CALLERS.items() if allows(who, caller)} == OPENS[who]


async def passed(request: HTTPConnection, **callers: Caller) -> Caller | None:
    await guard(Tokens(**callers), "https://fairy.lab:443")(request)
    return getattr(request.state, "caller", None)


async def test_a_token_with_the_right_passes_and_its_caller_is_left_for_the_route():
    assert await passed(asked(authorization="Bearer k"), k=CALLERS["admin"]) == CALLERS["admin"]


async def test_a_token_without_the_right_is_told_what_and_who_it_is():
    with pytest.raises(NotAllowed, match=f"GET {API}/users is not for ann, whose role is user"):
        await passed(asked(authorization="Bearer a"), a=CALLERS["user"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("user inside", "a session of ann"),
        ("user's metrics", "a token for metrics alone"),
        ("user's page", "a token for page alone"),
    ],
)
async def test_of_other_tokens_it_is_said_what_they_are_for(name, words):
    with pytest.raises(NotAllowed, match=words):
        await passed(asked(authorization="Bearer a"), a=CALLERS[name])


async def test_a_page_for_admins_tells_others_who_signed_in_that_they_are_none():
    page = asked(path="/admin", cookie="fairy_page=a")
    with pytest.raises(NotAllowed, match="this page is for admins, and ann is none"):
        await passed(page, a=CALLERS["user's page"])
    with pytest.raises(NotAllowed, match="GET /admin is not for kim"):
        await passed(asked(path="/admin", cookie="fairy_page=k"), k=CALLERS["admin"])


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/healthz"), ("POST", f"{API}/agents/{{name}}/reports")]
)
async def test_what_is_for_anyone_or_checked_by_the_route_needs_no_token(method, path):
    assert await passed(asked(method, path)) is None


async def test_metrics_need_no_token_from_this_machine_and_one_from_elsewhere():
    assert await passed(asked(path="/metrics", client="127.0.0.1")) is None
    with pytest.raises(NotSignedIn):
        await passed(asked(path="/metrics", client="10.0.0.9"))
    got = await passed(asked(path="/metrics", authorization="Bearer m"), m=CALLERS["user's metrics"])
    assert got == CALLERS["user's metrics"]


async def test_nothing_but_metrics_is_open_for_being_on_this_machine():
    with pytest.raises(NotSignedIn):
        await passed(asked(client="127.0.0.1"))


@pytest.mark.parametrize(
    ("client", "headers", "local"),
    [
        ("127.0.0.1", {}, True), ("::1", {}, True), ("10.0.0.9", {}, False), (None, {}, False),
        ("127.0.0.1", {"x_forwarded_for": "10.0.0.9"}, False),
        ("127.0.0.1", {"forwarded": "for=10.0.0.9"}, False),
    ],
)  # fmt: skip
def test_local_is_who_connects_from_this_machine_and_not_by_a_proxy(client, headers, local):
    assert is_local(asked(client=client, **headers)) is local


@pytest.mark.parametrize(
    "sent", [{}, {"authorization": "Bearer"}, {"authorization": "Basic abc"}, {"authorization": ""}]
)
def test_without_a_bearer_token_nobody_is_signed_in(sent):
    with pytest.raises(NotSignedIn, match="needs a token"):
        token_of(asked(**sent), Who.SIGNED_IN)


def test_a_bearer_token_is_read_however_its_kind_is_written():
    assert token_of(asked(authorization="bEARER  abc "), Who.SIGNED_IN) == "abc"


@pytest.mark.parametrize(
    ("who", "token"), [(Who.PAGE, "c"), (Who.ADMIN_PAGE, "c"), (Who.SIGNED_IN, "b"), (Who.ADMIN, "b")]
)
def test_a_cookie_opens_pages_alone_and_a_bearer_token_the_api_alone(who, token):
    assert token_of(asked(authorization="Bearer b", cookie="fairy_page=c"), who) == token


def test_a_browser_that_has_two_sign_ins_is_signed_in_by_neither():
    assert page_cookie(asked(cookie="other=1; fairy_page=a; fairy_page=a")) == "a"
    with pytest.raises(NotSignedIn, match="a second sign-in"):
        page_cookie(asked(cookie="fairy_page=a; fairy_page=b"))
    with pytest.raises(NotSignedIn, match="not signed in"):
        page_cookie(asked(cookie="other=1"))


def test_a_head_has_the_row_of_its_get():
    assert row_of(asked("HEAD")) is Who.ADMIN


def test_a_socket_is_the_apis_with_a_token_and_a_pages_without():
    terminal = f"{API}/sessions/{{name}}/terminal"
    assert row_of(asked(WEBSOCKET, terminal, authorization="Bearer b")) is Who.SIGNED_IN
    assert row_of(asked(WEBSOCKET, terminal)) is Who.PAGE


@pytest.mark.parametrize(
    ("scheme", "headers", "own"),
    [
        ("ws", {"host": "lab:8420", "origin": "http://lab:8420"}, True),
        ("wss", {"host": "lab:8420", "origin": "https://lab:8420"}, True),
        ("ws", {"host": "lab:8420", "origin": "https://fairy.lab:443"}, True),
        ("ws", {"host": "lab:8420", "origin": "https://lab:8420"}, False),
        ("ws", {"host": "lab:8420", "origin": "http://evil"}, False),
        ("ws", {"host": "lab:8420"}, False),
    ],
)
def test_a_socket_is_opened_for_pages_of_our_own_alone(scheme, headers, own):
    request = asked(WEBSOCKET, f"{API}/sessions/{{name}}/terminal", scheme=scheme, **headers)
    if own:
        check_own_page(request, "https://fairy.lab:443/under")
        return
    with pytest.raises(NotAllowed):
        check_own_page(request, "https://fairy.lab:443/under")


async def test_the_page_that_asks_for_a_socket_is_looked_at_before_its_cookie():
    terminal, cookie = f"{API}/sessions/{{name}}/terminal", {"cookie": "fairy_page=a", "host": "lab"}
    own = asked(WEBSOCKET, terminal, scheme="ws", origin="http://lab", **cookie)
    assert await passed(own, a=CALLERS["user's page"]) == CALLERS["user's page"]
    with pytest.raises(NotAllowed):
        await passed(
            asked(WEBSOCKET, terminal, scheme="ws", origin="http://evil", **cookie), a=CALLERS["user's page"]
        )


async def test_a_page_that_is_no_socket_may_come_from_anywhere_a_browser_opens_it():
    page = asked(path="/queue", cookie="fairy_page=a", origin="http://elsewhere")
    assert await passed(page, a=CALLERS["user's page"]) == CALLERS["user's page"]


@pytest.mark.parametrize(
    ("path", "then", "now", "goes_on"),
    [
        ("/queue", "user", "user", True), ("/queue", "user", "admin", True),
        ("/queue", "admin", "user", False),
        ("/queue", "admin", "admin", True), ("/queue", "user", "user's metrics", False),
        ("/queue", "user", None, False),
    ],
)  # fmt: skip
def test_a_stream_goes_on_while_its_readers_rights_are_no_less_than_at_its_start(path, then, now, goes_on):
    request = asked(path=f"{API}{path}", authorization="Bearer t")
    tokens = Tokens(t=CALLERS[then])
    request.state.caller = CALLERS[then]
    look = still_allowed(tokens, request)
    tokens.callers = {} if now is None else {"t": CALLERS[now]}
    assert look() is goes_on
    if goes_on:
        check_still_allowed(tokens, request)
        return
    with pytest.raises(NotSignedIn):
        check_still_allowed(tokens, request)


class Heard:
    """An application that reads its whole body, and what it was sent back."""

    def __init__(self, *pieces: bytes, length: str | None = None, kind: str = "http") -> None:
        self._pieces, self.read, self.sent, self.refusals = list(pieces), 0, [], Refusals()
        headers = [] if length is None else [(b"content-length", length.encode())]
        self.scope = {"type": kind, "headers": headers, "method": "POST", "path": "/"}

    async def receive(self):
        piece = self._pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}

    async def send(self, message):
        self.sent.append(message)

    async def app(self, scope, receive, send):
        while True:
            message = await receive()
            self.read += len(message["body"])
            if not message["more_body"]:
                return

    async def go(self):
        await BodyLimit(self.app, self.refusals)(self.scope, self.receive, self.send)


async def test_a_body_of_exactly_one_mebibyte_is_read():
    heard = Heard(b"x" * (LARGEST_BODY - 1), b"x", length=str(LARGEST_BODY))
    await heard.go()
    assert (heard.read, LARGEST_BODY) == (2**20, 2**20)
    assert heard.refusals.taken() == {}


@pytest.mark.parametrize("length", [str(LARGEST_BODY + 1), "-1", "many"])
async def test_a_body_that_says_it_is_larger_is_answered_before_it_is_read(length):
    heard = Heard(b"x", length=length)
    await heard.go()
    assert (heard.read, heard.sent[0]["status"], heard.refusals.taken()) == (0, 413, {Limit.BODY_SIZE: 1})


async def test_a_body_that_grows_larger_than_it_says_is_cut_off_and_counted():
    heard = Heard(b"x" * LARGEST_BODY, b"x")
    with pytest.raises(Exception, match="larger than 1 MiB"):
        await heard.go()
    assert (heard.read, heard.refusals.taken()) == (LARGEST_BODY, {Limit.BODY_SIZE: 1})


async def test_a_socket_has_no_body_to_be_measured():
    heard = Heard(b"x" * LARGEST_BODY, b"x", length="many", kind="websocket")
    await heard.go()
    assert heard.read == LARGEST_BODY + 1


@pytest.mark.parametrize("fails", [False, True])
async def test_the_place_of_a_stream_is_given_back_once_however_it_ends(fails):
    given = defaultdict(int)

    async def app(scope, receive, send):
        scope["state"]["give_back"] = lambda: given.__setitem__("back", given["back"] + 1)
        if fails:
            raise ConnectionError

    scope = {"type": "http"}
    try:
        await StreamPlaces(app)(scope, None, None)
    except ConnectionError:
        assert fails
    assert (given["back"], scope["state"]) == (1, {})


async def test_a_route_that_took_no_place_gives_none_back():
    async def app(scope, receive, send):
        assert scope["state"] == {}

    await StreamPlaces(app)({"type": "http"}, None, None)


def with_body(body: bytes) -> Request:
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "headers": [], "method": "POST"}, receive)


async def test_an_empty_body_is_an_empty_object():
    assert await json_body(with_body(b"")) == {}
    assert await json_body(with_body(b'{"gpus": 1}')) == {"gpus": 1}


@pytest.mark.parametrize("body", [b"{", b"nan", b'{"gpus": NaN}', b"[" * 100_000, b"\xff"])
async def test_a_body_that_is_no_json_is_refused_in_words(body):
    with pytest.raises(BadInput, match="the body is no JSON"):
        await json_body(with_body(body))


@pytest.mark.parametrize("role", list(Role))
def test_rights_of_an_admin_are_those_of_a_full_token_alone(role):
    scopes = ("full", "session", "page", "metrics", GATEWAY_SCOPE)
    admin_with = [scope for scope in scopes if Caller(replace(ANN, role=role), scope).is_admin]
    assert admin_with == (["full"] if role is Role.ADMIN else [])


def test_a_number_in_a_query_is_at_most_what_the_database_takes():
    assert LARGEST_NUMBER.bit_length() == 63
    assert (LARGEST_NUMBER + 1).bit_length() == 64
