"""Routes of a session's page: the page itself, its log and charts as they grow, what is done to it."""
import asyncio

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from gpufairy.control.find import find_session
from gpufairy.control.house import House
from gpufairy.core.people import Role
from gpufairy.web.advice_view import advice_of_session, afterwards
from gpufairy.web.asked import asked
from gpufairy.web.context import PageContext
from gpufairy.web.forms import caller_of
from gpufairy.web.pages import LOOK_AGAIN_S, page_route, show
from gpufairy.web.session_actions import add_actions, add_image_actions
from gpufairy.web.session_charts import Span, drawn, moment_of, plain, session_panels, span_named, stretch
from gpufairy.web.session_log import LogTail, add_log, log_tail
from gpufairy.web.session_page import apps_of, session_page, ways_in
from gpufairy.web.session_results import add_results, results_of
from gpufairy.web.under_way import UnderWay

LATEST_S = 2.0**40  # far beyond any clock


def routes(context: PageContext) -> APIRouter:
    router, under_way = APIRouter(include_in_schema=False, route_class=page_route(context)), UnderWay(context.house)
    add_page(router, context, under_way)
    add_log(router, context.house)
    add_results(router, context.house)
    add_readings(router, context.house)
    add_actions(router, context)
    add_image_actions(router, context, under_way)
    return router


def add_page(router: APIRouter, context: PageContext, under_way: UnderWay) -> None:
    house = context.house

    @router.get("/sessions/{name}")
    async def one_session(request: Request, name: str, span: str = Span.HOUR) -> Response:
        caller = caller_of(request)
        session = await find_session(house, caller, name)
        seen = await session_page(house, session, under_way.of(session.id))
        left = await results_of(house, session, seen.path)
        # What grows by itself is not sent again to a page that is open.
        log, charts = LogTail("", False), []
        if not asked().live_only:
            shown = stretch(house, session, span_named(span))
            log, panels = await asyncio.gather(log_tail(house, session), session_panels(house, session, shown))
            charts = [chart for chart in map(drawn, panels) if chart is not None]
        return show(
            "session.html", user=caller.user.name, is_admin=caller.user.role is Role.ADMIN, refresh_s=LOOK_AGAIN_S if seen.live else None,
            follows=session.id,
            session=seen, log=log, charts=charts, span=span_named(span), spans=Span, fairy=context.fairy_command, tab="overview",
            advice=await advice_of_session(house, session), after=await afterwards(house, session),
            results=left, ways=ways_in(context, session) if seen.running else (), apps=apps_of(context, session) if seen.running else [],
        )  # fmt: skip


def add_readings(router: APIRouter, house: House) -> None:
    @router.get("/sessions/{name}/readings")
    async def readings(
        request: Request, name: str, span: str = Span.HOUR, after: float | None = Query(None, alias="from", ge=0, le=LATEST_S)
    ) -> Response:
        """Columns for the charts; with `from` (seconds since 1970) only what is newer."""
        session = await find_session(house, caller_of(request), name)
        shown = stretch(house, session, span_named(span))
        panels = await session_panels(house, session, shown, moment_of(after))
        return JSONResponse(plain(panels, shown), headers={"Cache-Control": "no-store"})
