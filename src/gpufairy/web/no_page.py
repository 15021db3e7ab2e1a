"""An address that is no page's, and a fault of ours: told to a browser as a page, to programs as a problem."""
from collections.abc import Awaitable, Callable
from typing import cast

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gpufairy.web.asked import asking
from gpufairy.web.pages import CSP, HEADERS, show

Handler = Callable[[Request, Exception], Awaitable[Response]]
FOR_PROGRAMS = ("/api/", "/metrics", "/healthz", "/readyz")
WORDS = {
    404: ("No such page", "there is nothing at {path}", "Look for it from the first page on."),
    405: ("Wrong method", "{path} does not take {method}", "Use the buttons of the page."),
    500: ("A fault of ours", "the server met an error it did not expect", "Ask an admin to look into its log."),
}


def add_no_page(app: FastAPI) -> None:
    for kind in (HTTPException, Exception):
        app.add_exception_handler(kind, as_page_or(cast(Handler, app.exception_handlers[kind])))


def as_page_or(problem: Handler) -> Handler:
    async def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return no_page(request, status) if is_browser(request) and status in WORDS else await problem(request, error)

    return answer


def is_browser(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(FOR_PROGRAMS)


def no_page(request: Request, status: int) -> Response:
    """Nobody has looked who asks, so it says nothing that only some may know."""
    title, detail, next_step = WORDS[status]
    with asking(request):
        said = detail.format(path=ascii(request.url.path)[1:-1][:200], method=request.method)
        page = show("refused.html", status, user=None, title=title, detail=said, next_step=next_step)
    page.headers.update({**HEADERS, "Content-Security-Policy": CSP})
    return page
