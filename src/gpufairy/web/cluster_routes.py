"""Routes of what everybody shares: the cluster, the queue and the fairness of it."""
from datetime import tzinfo
from functools import lru_cache
from urllib.parse import unquote

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from gpufairy.control import collector
from gpufairy.control.house import House
from gpufairy.core.people import Role
from gpufairy.web.admin_accounting import own_month
from gpufairy.web.asked import Language, asked
from gpufairy.web.cluster_filter import filter_of
from gpufairy.web.cluster_page import cluster_page
from gpufairy.web.context import PageContext
from gpufairy.web.fairness_page import fairness_page, period_of
from gpufairy.web.forms import caller_of
from gpufairy.web.gpu_bars import Host
from gpufairy.web.lately import Lately
from gpufairy.web.pages import LOOK_AGAIN_S, page_route, show, templates
from gpufairy.web.queue_page import queue_page, rows_of
from gpufairy.web.times import here

SHOWN = "X-Fairy-Shown"  # the hosts that an open page has on the screen
MOST_SHOWN = 500
DRAWN_KEPT = 512  # hosts as they were last drawn: for most who look they are the same


def routes(context: PageContext) -> APIRouter:
    router = APIRouter(include_in_schema=False, route_class=page_route(context))
    add_cluster(router, context)
    add_queue_and_fairness(router, context)
    return router


def add_cluster(router: APIRouter, context: PageContext) -> None:
    house, desk = context.house, context.desk
    lately = Lately(house, None if desk is None else desk.watch.uptime)

    @router.get("/cluster")
    async def cluster(request: Request) -> Response:
        user, chosen = caller_of(request).user, filter_of(request.query_params)
        begins = here(house.clock()).replace(hour=0, minute=0, second=0, microsecond=0)
        used, records, there = await lately.used_since(begins), await lately.records(silent_hosts(house)), await lately.there()
        with collector.put_off():
            page = cluster_page(house, user.name, chosen, used_today=used, records=records, there=there, shown=shown_hosts(request))
            hosts = [drawn(host, asked().language, asked().zone) for host in page.hosts]
        return show(
            "cluster.html", user=user.name, refresh_s=LOOK_AGAIN_S, is_admin=user.role is Role.ADMIN, page=page, hosts=hosts, chosen=chosen
        )  # fmt: skip


def silent_hosts(house: House) -> list[str]:
    return [seen.node for seen in house.watch.hosts() if seen.silent]


def shown_hosts(request: Request) -> frozenset[str] | None:
    """None: all of them, as for a page that is not open yet."""
    names = request.headers.get(SHOWN)
    if names is None or not asked().live_only:
        return None
    return frozenset(unquote(name) for name in names.split(",")[:MOST_SHOWN])


@lru_cache(DRAWN_KEPT)
def drawn(host: Host, language: Language, zone: tzinfo | None) -> Markup:
    """Safe, since a template of ours made it. `language` and `zone`: those of whoever asked, since words and times in it are theirs."""
    return Markup(templates.get_template("cluster_host.html").render(host=host))


def add_queue_and_fairness(router: APIRouter, context: PageContext) -> None:
    house = context.house

    @router.get("/queue")
    async def queue(request: Request) -> Response:
        caller = caller_of(request)
        page = queue_page(house, caller, rows_of(request.query_params.get("rows", "")))
        return show("queue.html", user=caller.user.name, refresh_s=LOOK_AGAIN_S, is_admin=caller.user.role is Role.ADMIN, page=page)

    @router.get("/fairness")
    async def fairness(request: Request) -> Response:
        user, query = caller_of(request).user, request.query_params
        page = await fairness_page(house, user, period_of(query.get("by", ""), query.get("since", "")))
        own = await own_month(house, user.name)
        return show("fairness.html", user=user.name, is_admin=user.role is Role.ADMIN, page=page, own=own)
