"""Errors as HTTP: the one place where status codes live. application/problem+json, RFC 9457, with `next`: what to do."""
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gpufairy.api.policy import POLICY, WEBSOCKET
from gpufairy.core import errors

STATUS: dict[type[errors.FairyError], int] = {
    errors.BadInput: 400,
    errors.NotSignedIn: 401,
    errors.NotAllowed: 403,
    errors.NoSuchThing: 404,
    errors.Conflict: 409,
    errors.NeverFits: 422,
    errors.QuotaExceeded: 422,
    errors.EngineRefused: 409,
    errors.EngineSilent: 503,
    errors.StoreUnavailable: 503,
    errors.Busy: 503,
    errors.TooMany: 429,
    errors.TooLarge: 413,
    errors.NotDelivered: 502,
    errors.NotLeader: 503,
    errors.IllegalStep: 500,
    errors.FairyError: 500,
}
TITLES = {
    errors.BadInput: "Not understood", errors.NotSignedIn: "Not signed in", errors.NotAllowed: "Not allowed",
    errors.NoSuchThing: "No such thing", errors.Conflict: "In the way", errors.NeverFits: "Never fits",
    errors.QuotaExceeded: "Over the quota", errors.EngineRefused: "Refused by the engine", errors.EngineSilent: "No answer from the engine",
    errors.StoreUnavailable: "Database not available", errors.Busy: "Busy", errors.TooMany: "Too many", errors.TooLarge: "Too large",
    errors.NotDelivered: "Not delivered", errors.NotLeader: "Another server leads",
    errors.IllegalStep: "A fault of ours", errors.FairyError: "A fault of ours",
}  # fmt: skip
OF_CONNECTIONS = {408: "Too slow", 431: "Too large"}  # told where they are read, before any route is known
PROBLEM_TYPE = "application/problem+json"
PROBLEM: dict[str, Any] = {
    "description": "What is wrong, on which thing, and in `next` what to do.",
    "type": "object",
    "properties": {
        "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"}, "detail": {"type": "string"},
        "next": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "next"],
    "additionalProperties": False,
}  # fmt: skip
COME_AGAIN_S = 5  # the beat of those who report
HTTP_ERRORS = {
    404: ("No such page", "there is nothing at {path}", "See /docs for all there is."),
    405: ("Wrong method", "{path} does not take {method}", "See /docs for what it takes."),
}


def problem(status: int, title: str, detail: str, next_step: str = "") -> JSONResponse:
    body: dict[str, Any] = {"type": f"about:blank#{title.lower().replace(' ', '-')}", "title": title, "status": status, "detail": detail}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse({**body, "next": next_step}, status, headers, media_type=PROBLEM_TYPE)


def titles_by_status() -> dict[int, str]:
    """In words what a status may mean: the first of several is the most usual."""
    found: dict[int, list[str]] = {}
    for kind, status in STATUS.items():
        found.setdefault(status, []).append(TITLES[kind])
    told = {status: ", ".join(dict.fromkeys(titles)) for status, titles in found.items()}
    return dict(sorted((told | OF_CONNECTIONS).items()))


async def on_fairy_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.FairyError)
    answer = problem(*status_and_title(error), error.detail, error.next_step)
    if isinstance(error, (errors.Busy, errors.TooMany)):
        answer.headers["Retry-After"] = str(COME_AGAIN_S)
    return answer


def status_and_title(error: errors.FairyError) -> tuple[int, str]:
    """An adapter may have errors of its own below those of core: they are told as what they are a kind of."""
    kind = next(kind for kind in type(error).__mro__ if kind in STATUS)
    return STATUS[kind], TITLES[kind]


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title, detail, next_step = HTTP_ERRORS.get(error.status_code, ("Refused", str(error.detail), ""))
    said = detail.format(path=ascii(request.url.path)[1:-1][:200], method=request.method)
    answer = problem(error.status_code, title, said, next_step)
    if error.status_code == 405:
        answer.headers["Allow"] = ", ".join(taken_at(getattr(request.scope.get("route"), "path", "")))
    return answer


def taken_at(path: str) -> list[str]:
    """All methods: Starlette names those of one route alone, and a path has a route for each."""
    return [method for method, known in POLICY if known == path and method != WEBSOCKET]


async def on_fault(request: Request, error: Exception) -> Response:
    """A bug of ours. The log has it; the caller learns that it was not their fault, and nothing of our insides."""
    said = "the server met an error it did not expect"
    return problem(500, "A fault of ours", said, "Look into the server's log, and tell the maintainers.")
