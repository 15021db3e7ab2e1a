"""Routes of the pages: sign in and out, the first page, a session's page, how they look and speak, and what keeps them live."""
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from gpufairy.control.bell import all_of
from gpufairy.core.people import Role
from gpufairy.web import bookings_routes, cluster_routes, session_routes, terminal
from gpufairy.web.account import add_account
from gpufairy.web.admin_routes import add_admin
from gpufairy.web.asked import LANGUAGE_COOKIE, THEME_COOKIE, Language, Theme
from gpufairy.web.assets import A_YEAR_S, add_assets
from gpufairy.web.context import PageContext
from gpufairy.web.disk_page import add_disk_page
from gpufairy.web.forms import caller_of, fields_of, on_this_site
from gpufairy.web.help_page import add_help
from gpufairy.web.home import home
from gpufairy.web.images_page import add_images_page
from gpufairy.web.join_page import add_hand_ins, add_join
from gpufairy.web.launch import add_launch
from gpufairy.web.live import add_live
from gpufairy.web.pages import LOOK_AGAIN_S, page_route, show
from gpufairy.web.sign_in import SEE_OTHER
from gpufairy.web.sign_in_routes import add_sign_in_routes


def routes(context: PageContext) -> APIRouter:
    router = PageRouter(include_in_schema=False, route_class=page_route(context))
    add_first_page(router, context)  # routes are tried in turn: what open pages ask for again and again comes first
    add_live(router, context.house)
    router.include_router(session_routes.routes(context))
    router.include_router(cluster_routes.routes(context))
    add_sign_in_routes(router, context)
    add_join(router, context)
    add_hand_ins(router, context)
    add_account(router, context)
    add_disk_page(router, context)
    add_admin(router, context)
    add_help(router, context)
    add_assets(router)
    add_choices(router, context)
    router.include_router(terminal.routes(context))
    router.include_router(bookings_routes.routes(context))
    add_launch(router, context)
    add_images_page(router, context)
    return router


class PageRouter(APIRouter):
    """Stands before the routes of the API, which are many, and is passed by at a glance by whoever wants one of those."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if scope["path"].startswith("/api/") else super().matches(scope)


def add_pages(app: FastAPI, context: PageContext) -> None:
    app.include_router(routes(context))
    app.router.routes.insert(0, app.router.routes.pop())


def add_first_page(router: APIRouter, context: PageContext) -> None:
    house = context.house

    @router.get("/")
    async def first_page(request: Request) -> Response:
        user = caller_of(request).user
        seen, is_admin = await home(house, user.name), user.role is Role.ADMIN
        return show(
            "home.html", user=user.name, is_admin=is_admin, refresh_s=LOOK_AGAIN_S, follows=all_of(user.name), home=seen,
            fairy=context.fairy_command,
        )  # fmt: skip


def add_choices(router: APIRouter, context: PageContext) -> None:
    @router.post("/language")
    async def choose(request: Request) -> Response:
        """The language and the look of the pages, kept in the browser."""
        fields = await fields_of(request, context.url)
        answer = RedirectResponse(on_this_site(fields.get("back", "/")), SEE_OTHER, {"Cache-Control": "no-store"})
        for cookie, known, chosen in ((LANGUAGE_COOKIE, Language, fields.get("language")), (THEME_COOKIE, Theme, fields.get("theme"))):
            if chosen in set(known):
                answer.set_cookie(cookie, str(chosen), max_age=A_YEAR_S, path="/", samesite="lax")
        return answer
