"""Routes of alerts: what fires, what is silenced, where it is told. And of each user's own: where they are told of their sessions."""
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from gpufairy.api.alert_shapes import alert_shape, channel_shape, rule_shape, silence_shape, uptime_shape, user_channel_shape
from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.control.alert_desk import AlertDesk
from gpufairy.core.alert_rules import RULES
from gpufairy.core.errors import Conflict
from gpufairy.wire.alerts import SilenceBody, UserChannelBody, moment
from gpufairy.wire.read import read

MOST = 500  # of one page


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API)
    add_alerts(router, context)
    add_silences(router, context)
    add_channels(router, context)
    add_messages(router, context)
    return router


def desk_of(context: Context) -> AlertDesk:
    if context.desk is None:
        raise Conflict("this server watches for nothing", "Start it with `fairy up`.")
    return context.desk


def add_alerts(router: APIRouter, context: Context) -> None:
    @router.get("/alerts", tags=["alerts"])
    async def alerts(
        past: bool = False, node: str = "", rule: str = "", limit: int = Query(100, ge=1, le=MOST), after: str | None = None
    ) -> dict[str, Any]:
        """What fires or is pending now, the worst first; with `past`, what is over, the newest first."""
        desk = desk_of(context)
        if past:
            before = None if after is None else moment(after, "after")
            found = await context.house.store.alerts.past(limit=limit, before=before, node=node, rule=rule)
            more = alert_shape(found[-1])["fired_at"] if len(found) == limit else None
            return {"items": [alert_shape(one) for one in found], "next": more}
        now, silences = context.house.clock(), desk.watch.quiet()
        live = [one for one in desk.watch.alerts() if node in ("", one.node) and rule in ("", one.rule)]
        return {"items": [alert_shape(one, silences, now) for one in live], "next": None}

    @router.get("/alerts/rules", tags=["alerts"])
    async def rules() -> dict[str, Any]:
        """Every rule: what it watches, how bad that is, for how long before it fires, and what to do."""
        on = desk_of(context).watch.settings.rules
        return {"items": [rule_shape(rule, name in on) for name, rule in RULES.items()], "next": None}

    @router.get("/alerts/uptime", tags=["alerts"])
    async def uptime() -> dict[str, Any]:
        """Of each watched host: what part of the last 30 days it was there, and when and why it was not."""
        return {"items": [uptime_shape(one) for one in await desk_of(context).watch.uptime()], "next": None}

    @router.post("/alerts/{alert_id}/ack", tags=["alerts"])
    async def acknowledge(request: Request, alert_id: str) -> dict[str, Any]:
        """Take note of it: it is told to nobody else, and not again."""
        return alert_shape(await desk_of(context).acknowledge(caller_of(request).user.name, alert_id))


def add_silences(router: APIRouter, context: Context) -> None:
    @router.get("/alerts/silences", tags=["alerts"])
    async def silences() -> dict[str, Any]:
        """Those that are not over; of a node, and begun later, they are maintenance windows."""
        return {"items": [silence_shape(one) for one in desk_of(context).watch.silences()], "next": None}

    @router.post("/alerts/silences", status_code=201, tags=["alerts"])
    async def silence(request: Request) -> JSONResponse:
        """Tell nobody of what fits these patterns: `{"node": "gpu01", "time": "2h", "why": "new disk"}`."""
        body = read(SilenceBody, await json_body(request), "silence")
        return JSONResponse(silence_shape(await desk_of(context).silence(caller_of(request).user.name, body)), 201)

    @router.delete("/alerts/silences/{silence_id}", status_code=204, tags=["alerts"])
    async def unsilence(request: Request, silence_id: str) -> Response:
        """End it now."""
        await desk_of(context).unsilence(caller_of(request).user.name, silence_id)
        return Response(status_code=204)


def add_channels(router: APIRouter, context: Context) -> None:
    @router.get("/alerts/channels", tags=["alerts"])
    async def channels() -> dict[str, Any]:
        """Where alerts are told, when something last got there, and what is wrong if nothing does."""
        desk = desk_of(context)
        status = {one.name: one for one in await desk.outbox.status()}
        known = [one for one in desk.watch.settings.channels if one.name in status]
        return {"items": [channel_shape(one, status[one.name]) for one in known], "next": None}

    @router.post("/alerts/channels/{name}/test", tags=["alerts"])
    async def test(request: Request, name: str) -> dict[str, Any]:
        """Send a test there now."""
        return {"name": name, "to": await desk_of(context).test(caller_of(request).user.name, name)}


def add_messages(router: APIRouter, context: Context) -> None:
    @router.get("/messages", tags=["people"])
    async def messages(request: Request) -> dict[str, Any]:
        """Where you are told of your own sessions, beside page and terminal."""
        desk = desk_of(context)
        own = desk.messages.of(caller_of(request).user.name)
        return {"items": [user_channel_shape(one) for one in own], "offered": list(desk.messages.kinds), "next": None}

    @router.put("/messages", tags=["people"])
    async def change(request: Request) -> dict[str, Any]:
        """Be told by `{"kind": "email", "address": "…", "about": ["started", "failed"]}`."""
        body = read(UserChannelBody, await json_body(request), "messages")
        return user_channel_shape(await desk_of(context).put_channel(caller_of(request).user.name, body))

    @router.delete("/messages/{kind}", status_code=204, tags=["people"])
    async def remove(request: Request, kind: str) -> Response:
        """Be told no more by that."""
        await desk_of(context).remove_channel(caller_of(request).user.name, kind)
        return Response(status_code=204)

    @router.post("/messages/{kind}/test", tags=["people"])
    async def test_own(request: Request, kind: str) -> dict[str, Any]:
        """Send yourself a test now."""
        return {"kind": kind, "to": await desk_of(context).test_channel(caller_of(request).user.name, kind)}
