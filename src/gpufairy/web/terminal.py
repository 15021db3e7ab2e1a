"""The terminal and the apps of a session on its page."""
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.alter import running
from gpufairy.control.find import find_session
from gpufairy.core.errors import Conflict
from gpufairy.core.people import Role
from gpufairy.web.context import PageContext
from gpufairy.web.forms import caller_of
from gpufairy.web.pages import TERMINAL_CSP, page_route, show
from gpufairy.web.session_page import facts
from gpufairy.web.sign_in import check_same_origin
from gpufairy.web.words import mark_of

START_S = 1.0  # that a click waits for an app; the app's own page goes on waiting


def routes(context: PageContext) -> APIRouter:
    router = APIRouter(include_in_schema=False, route_class=page_route(context))
    house = context.house

    @router.get("/sessions/{name}/terminal")
    async def terminal(request: Request, name: str) -> Response:
        caller = caller_of(request)
        session = running(house, await find_session(house, caller, name))
        answer = show(
            "terminal.html", user=caller.user.name, is_admin=caller.user.role is Role.ADMIN, session=session, mark=mark_of(session),
            facts=facts(session, house.clock()), fairy=context.fairy_command,
        )  # fmt: skip
        answer.headers["Content-Security-Policy"] = TERMINAL_CSP
        return answer

    @router.post("/sessions/{name}/apps/{app}")
    async def open_app(request: Request, name: str, app: str) -> Response:
        """A page that leads there, and no redirect: our forms lead nowhere but to us, and browsers hold redirects to that too."""
        check_same_origin(request, context.url)
        caller = caller_of(request)
        if context.apps is None:
            raise Conflict("this server has no gateway, which serves the apps of sessions", "Ask an admin: ssh.enabled in fairy.toml.")
        opened = await context.apps.open(caller, await find_session(house, caller, name), app, START_S)
        return show("opened.html", user=caller.user.name, title=opened.app.title, url=opened.url)

    return router
