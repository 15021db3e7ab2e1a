"""Routes of apps: opened by their owners; listed, and let in by ticket, for the gateway that serves them."""
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.control.apps import Apps
from gpufairy.control.find import find_session
from gpufairy.core.errors import Conflict, NotAllowed
from gpufairy.wire.apps import OpenBody, TicketBody
from gpufairy.wire.read import read

LONGEST_POLL_S = 25
USUAL_WAIT_S = 3.0  # most apps answer by then; a browser that comes earlier is told to wait
LONGEST_WAIT_S = 20.0


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API)
    house = context.house

    def apps() -> Apps:
        if context.apps is None:
            raise Conflict("this server has no gateway, which serves the apps of sessions", "Ask an admin: ssh.enabled in fairy.toml.")
        return context.apps

    @router.post("/sessions/{name}/apps", tags=["sessions"])
    async def open_app(request: Request, name: str, wait: float = Query(USUAL_WAIT_S, ge=0, le=LONGEST_WAIT_S)) -> dict[str, Any]:
        """Open an app of it in a browser (`{"app": "jupyter"}`): started if need be. The address works once, within a minute."""
        body, caller = read(OpenBody, await json_body(request), "apps"), caller_of(request)
        opened = await apps().open(caller, await find_session(house, caller, name), body.app, wait)
        state = "ready" if opened.ready else "starting"
        return {"url": opened.url, "app": opened.app.name, "title": opened.app.title, "port": opened.stall.inside, "state": state}

    @router.get("/gateway/apps", tags=["gateway"])
    async def open_apps(after: str = Query("", max_length=100)) -> dict[str, Any]:
        """All that are open, and tokens that are gone: when they differ from that revision or half a minute has gone."""
        now = await apps().after(after, LONGEST_POLL_S)
        return {"revision": now.revision, "stalls": [asdict(stall) for stall in now.stalls], "gone_tokens": now.gone_tokens}

    @router.post("/gateway/tickets", tags=["gateway"])
    async def use_ticket(request: Request) -> dict[str, Any]:
        """Whether a ticket opens the app at whose origin it was shown. It is used up by this."""
        body = read(TicketBody, await json_body(request), "ticket")
        used = apps().redeem(body.ticket, body.stall)
        if used is None:
            raise NotAllowed("this link was used before, is older than a minute, or is for another app", "Open the app again.")
        return {"stall": used.stall_id, "token_id": used.token_id}

    return router
