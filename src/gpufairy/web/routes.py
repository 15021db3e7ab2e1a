"""Routes of the pages: sign in and out, the first page, a session's page, and how they look."""
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.find import find_session
from gpufairy.control.registry import Caller
from gpufairy.core.apps import APPS
from gpufairy.core.errors import NotSignedIn
from gpufairy.web import terminal
from gpufairy.web.context import PageContext
from gpufairy.web.home import home
from gpufairy.web.pages import LOOK, LOOK_AGAIN_S, how_to_sign_in, page_route, show
from gpufairy.web.session_page import session_page, ways_in
from gpufairy.web.sign_in import check_same_origin, only_looks_ahead, signed_in, signed_out

A_YEAR_S = 365 * 86400  # the address holds a hash of the file: another file has another address


def routes(context: PageContext) -> APIRouter:
    router = APIRouter(include_in_schema=False, route_class=page_route(context))
    add_sign_in_routes(router, context)
    router.include_router(terminal.routes(context))
    house = context.house

    @router.get("/")
    async def first_page(request: Request) -> Response:
        user = caller_of(request).user.name
        seen = await home(house, user, house.watch.readings())
        return show("home.html", user=user, refresh_s=LOOK_AGAIN_S, home=seen, fairy=context.fairy_command)

    @router.get("/sessions/{name}")
    async def one_session(request: Request, name: str) -> Response:
        caller = caller_of(request)
        seen = await session_page(house, await find_session(house, caller, name))
        refresh_s = LOOK_AGAIN_S if seen.live else None
        ways, apps = ways_in(context, caller.user.name, seen), [(app.name, app.title) for app in APPS if context.apps is not None]
        return show(
            "session.html", user=caller.user.name, refresh_s=refresh_s, session=seen, fairy=context.fairy_command, ways=ways, apps=apps
        )  # fmt: skip

    @router.get("/static/look.css")
    async def look() -> Response:
        return Response(LOOK, media_type="text/css", headers={"Cache-Control": f"public, max-age={A_YEAR_S}, immutable"})

    return router


def add_sign_in_routes(router: APIRouter, context: PageContext) -> None:
    registry = context.house.registry

    @router.get("/signin")
    async def sign_in(request: Request, code: str = "") -> Response:
        if only_looks_ahead(request):
            return Response(status_code=503, headers={"Cache-Control": "no-store"})
        user = context.links.use(code)
        if user is not None:
            return await signed_in(registry, user, context.url)
        status, _ = context.status_and_title(NotSignedIn(""))
        return how_to_sign_in(context, status, "This sign-in link was used before, or is too old.", refresh_s=None)

    @router.post("/signout")
    async def sign_out(request: Request) -> Response:
        check_same_origin(request, context.url)
        token_id = caller_of(request).token_id
        assert token_id is not None
        return await signed_out(registry, token_id)


def caller_of(request: Request) -> Caller:
    """Left there by the guard that stands before every route."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller
