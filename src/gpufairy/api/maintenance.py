"""Routes of maintenance windows: planned for a host, listed, and ended."""
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control import host_care
from gpufairy.core.maintenance import Window
from gpufairy.wire.maintenance import WindowBody
from gpufairy.wire.read import read


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["cluster"]), context.house

    @router.get("/maintenance")
    async def windows() -> dict[str, Any]:
        """Windows that are open or to come."""
        now = house.clock()
        return {"items": [{**window_shape(one), "open": one.runs(now)} for one in house.maintenance.windows()], "next": None}

    @router.post("/nodes/{name}/maintenance", status_code=201)
    async def plan(request: Request, name: str) -> JSONResponse:
        """Say when a host is worked on: nothing starts there that would not be over before, nobody is told that it is away."""
        body = read(WindowBody, await json_body(request), "maintenance")
        made = await host_care.plan_window(house, caller_of(request).user.name, name, body)
        return JSONResponse({**window_shape(made), "open": made.runs(house.clock())}, status_code=201)

    @router.delete("/maintenance/{window_id}")
    async def end(request: Request, window_id: str) -> dict[str, Any]:
        """End a window that is open, or call one off that is to come."""
        ended = await host_care.end_window(house, caller_of(request).user.name, window_id)
        return {**window_shape(ended), "open": False}

    return router


def window_shape(window: Window) -> dict[str, Any]:
    return {
        "id": window.id, "node": window.node, "start": moment(window.start), "end": moment(window.end), "made_by": window.made_by,
        "why": window.why,
    }  # fmt: skip
