"""The pure part of speaking to the server: what a call is, and how its answer is read. No I/O, so that both clients share it."""
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from gpufairy.client.errors import Problem
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

Record: TypeAlias = dict[str, Any]  # one JSON object, as the API gives it

API = "/api/v1"
ANSWER_LIMIT_S = 30.0  # a server that needs longer for a plain answer is in trouble, and the user should hear it
LONGEST_ERROR = 300  # characters of a foreign error page worth showing

_TOKEN = re.compile(r"[!-~]{1,4096}")
_LOOPBACK = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|::1")


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str  # below the server's URL, quoted, with its query
    body: Record | None = None
    key: str | None = None  # Idempotency-Key: the server does it once, however often it is sent
    limit_s: float = ANSWER_LIMIT_S
    raw: bytes | None = None  # a body that was signed as it is
    extra: tuple[tuple[str, str], ...] = ()  # headers
    harmless: bool = False  # to send twice: the server knows a second one for what it is

    @property
    def repeatable(self) -> bool:
        return self.harmless or self.key is not None or self.method in ("GET", "DELETE")

    def headers(self, token: str | None) -> dict[str, str]:
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": "gpufairy"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        if self.body is not None or self.raw is not None:
            headers["Content-Type"] = "application/json"
        return {**headers, **dict(self.extra)}

    def payload(self) -> bytes | None:
        return self.raw if self.body is None else json.dumps(self.body).encode()


def path_of(*parts: str, **query: object) -> str:
    """`/api/v1/sessions/a%2Fb?follow=1`: parts are quoted whole, and what is None or False is left out."""
    path = API + "".join("/" + quote(part, safe="") for part in parts)
    asked = {name.rstrip("_"): 1 if value is True else value for name, value in query.items() if value is not None and value is not False}
    return f"{path}?{urlencode(asked)}" if asked else path


def parse_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip().rstrip("/"))
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        usable = False
    if not usable:
        raise BadInput(f"server: {shown(url)} is no address of a server", "Write it like http://127.0.0.1:8420.")
    if parts.username is not None or parts.query or parts.fragment:
        raise BadInput(
            f"server: the address of {parts.hostname} carries more than a host, a port and a path",
            "Leave out names, passwords, ? and #; tokens go into a file (--token-file).",
        )
    return parts


def is_loopback(url: str) -> bool:
    """Whether what is sent there stays on this machine, unless a tunnel begins there."""
    return _LOOPBACK.fullmatch(parse_url(url).hostname or "") is not None


def checked_token(token: str, where: str) -> str:
    """The token without its line end. It is never shown, not even when it is wrong."""
    token = token.strip()
    if _TOKEN.fullmatch(token) is None:
        raise BadInput(f"{where} holds no token: a token is one line of plain characters", "Make one with `fairy token create`.")
    return token


def read_answer(status: int, location: str | None, body: bytes) -> Any:
    """The JSON of an answer that went well (None where there is none); anything else raises Problem."""
    if not 200 <= status < 300:
        raise problem_of(status, location, body)
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(status, "not JSON", f"the server answered {shown(_text(body))}, which is no JSON", _IS_IT_FAIRY) from None


def problem_of(status: int, location: str | None, body: bytes) -> Problem:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and isinstance(said.get("detail") or said.get("title"), str):
        title, detail, next_step = (str(said.get(name) or "") for name in ("title", "detail", "next"))
        return Problem(status, title, detail, next_step)
    if 300 <= status < 400:
        there = shown(location or "nowhere")
        return Problem(status, "moved", f"the server answered {status} and points to {there}", "Use the address that it points to.")
    return Problem(status, "not understood", f"the server answered {status} {shown(_text(body), LONGEST_ERROR)}", _IS_IT_FAIRY)


IS_IT_RUNNING = "Is it running? Start it with `fairy up`, or check the address."
_IS_IT_FAIRY = "Check that the address is that of a gpufairy server (`fairy whoami`)."


def _text(body: bytes) -> str:
    return body[:LONGEST_ERROR].decode(errors="replace")


@dataclass(slots=True)
class Lines:
    """Cuts a stream of bytes into lines, whatever the pieces it comes in."""

    rest: bytes = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        return lines


@dataclass(slots=True)
class ServerSentEvents:
    """Reads `data:` lines into records; comments, which only keep the line alive, are passed over."""

    lines: Lines = field(default_factory=Lines)
    data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[Record]:
        for line in self.lines.feed(chunk):
            text = line.decode(errors="replace").rstrip("\r")
            if text.startswith("data:"):
                self.data.append(text[5:].removeprefix(" "))
            elif not text and self.data:
                joined, self.data = "\n".join(self.data), []
                yield _event(joined)


@dataclass(slots=True)
class JsonLines:
    """Reads one record a line."""

    lines: Lines = field(default_factory=Lines)

    def feed(self, chunk: bytes) -> Iterator[Record]:
        for line in self.lines.feed(chunk):
            yield _event(line.decode(errors="replace"))


def _event(text: str) -> Record:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise Problem(200, "not an event", f"the server sent the event {shown(text)}, which is no JSON object", _IS_IT_FAIRY)
    return event


def free_of(nodes: list[Record]) -> list[Record]:
    """What is free on each node: its name, state, free CPUs and memory, and each GPU with what is left of it."""
    return [
        {
            "node": node["name"],
            "state": node.get("state"),
            "why": node.get("why"),
            **(node.get("free") or {}),
            "cards": node.get("gpus") or [],
        }
        for node in nodes
    ]
