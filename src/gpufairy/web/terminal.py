"""The terminal and the apps of a session on its page: the only page of ours that runs a script, and buttons that open apps."""
import hashlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from gpufairy.control.alter import running
from gpufairy.control.find import find_session
from gpufairy.control.registry import Caller
from gpufairy.core.errors import Conflict
from gpufairy.web.context import PageContext
from gpufairy.web.pages import page_route, show
from gpufairy.web.sign_in import check_same_origin

# xterm.js writes its colours into the page as a style, so inline styles are let through here; scripts are ours alone, as files.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
A_YEAR_S = 365 * 86400  # the address holds a hash of the file: another file has another address
STATIC = Path(__file__).parent / "static"
FILES = {name: (STATIC / name).read_bytes() for name in ("xterm.css", "terminal.css", "xterm.js", "xterm-fit.js", "terminal.js")}
KINDS = {"css": "text/css", "js": "text/javascript"}
HREFS = [f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}" for name, content in FILES.items()]
START_S = 1.0  # that a click waits for an app; the app's own page goes on waiting


def routes(context: PageContext) -> APIRouter:
    router = APIRouter(include_in_schema=False, route_class=scripted_route(context))
    house = context.house

    @router.get("/sessions/{name}/terminal")
    async def terminal(request: Request, name: str) -> Response:
        caller = caller_of(request)
        session = running(house, await find_session(house, caller, name))
        styles, scripts = [href for href in HREFS if ".css" in href], [href for href in HREFS if ".js" in href]
        return show(
            "terminal.html", user=caller.user.name, session=session, styles=styles, scripts=scripts, fairy=context.fairy_command
        )  # fmt: skip

    @router.post("/sessions/{name}/apps/{app}")
    async def open_app(request: Request, name: str, app: str) -> Response:
        """A page that leads there, and no redirect: our forms lead nowhere but to us, and browsers hold redirects to that too."""
        check_same_origin(request, context.url)
        caller = caller_of(request)
        if context.apps is None:
            raise Conflict("this server has no gateway, which serves the apps of sessions", "Ask an admin: ssh.enabled in fairy.toml.")
        opened = await context.apps.open(caller, await find_session(house, caller, name), app, START_S)
        return show("opened.html", user=caller.user.name, title=opened.app.title, url=opened.url)

    add_files(router)
    return router


def add_files(router: APIRouter) -> None:
    for name, content in FILES.items():
        router.add_api_route(f"/static/{name}", file_answer(content, KINDS[name.rpartition(".")[2]]), methods=["GET"], name=name)


def file_answer(content: bytes, kind: str) -> Callable[[], Coroutine[Any, Any, Response]]:
    async def answer() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": f"public, max-age={A_YEAR_S}, immutable"})

    return answer


def scripted_route(context: PageContext) -> type[APIRoute]:
    class ScriptedRoute(page_route(context)):  # type: ignore[misc]  # a class made by a function
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer_of = super().get_route_handler()

            async def answer(request: Request) -> Response:
                response: Response = await answer_of(request)
                response.headers["Content-Security-Policy"] = CSP
                return response

            return answer

    return ScriptedRoute


def caller_of(request: Request) -> Caller:
    """Left there by the guard that stands before every route."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller
