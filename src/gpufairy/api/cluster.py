"""Routes of what there is: nodes, GPUs, the line of those who wait, and what happened."""
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpufairy.api.context import Context
from gpufairy.api.door import LARGEST_NUMBER, caller_of, json_body, still_allowed
from gpufairy.api.follow import event_stream
from gpufairy.api.host_shapes import NOTHING_READ, seen_gpus, seen_shape, watched_shape
from gpufairy.api.policy import API
from gpufairy.api.shapes import event_shape, gpu_shape, moment, node_shape
from gpufairy.control import govern
from gpufairy.control.find import may_see, may_see_of, wait_of
from gpufairy.control.follow import while_allowed
from gpufairy.control.house import House
from gpufairy.core.errors import BadInput
from gpufairy.core.holders import holders_by_gpu
from gpufairy.wire.people import DrainBody
from gpufairy.wire.read import read

UNSEEN = {"free": None, "idle": False, "why": "nothing is read of it"}


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["cluster"])
    add_nodes(router, context)
    add_queue_and_events(router, context.house)
    return router


def add_nodes(router: APIRouter, context: Context) -> None:
    house = context.house

    def node_shapes(request: Request) -> list[dict[str, Any]]:
        shown = partial(may_see_of, caller_of(request))
        ours = {node.name for node in house.nodes}
        watched = [watched_shape(seen, shown) for seen in house.watch.hosts() if seen.node not in ours]
        return [*our_nodes(house, shown), *watched]

    @router.get("/nodes")
    async def nodes(request: Request) -> dict[str, Any]:
        """Every host: its state, what it has, what is free, who holds and uses what. Hosts that are only watched are among them."""
        return {"items": node_shapes(request), "next": None}

    @router.get("/gpus")
    async def gpus(request: Request) -> dict[str, Any]:
        """Every GPU: its kind, how it is cut, who holds it, what is free, how hard it works (null: not known)."""
        return {"items": [{"node": node["name"], **gpu} for node in node_shapes(request) for gpu in node["gpus"]], "next": None}

    @router.post("/nodes/{name}/drain")
    async def drain(request: Request, name: str) -> JSONResponse:
        """Let what runs there go on, and start nothing new."""
        body = read(DrainBody, await json_body(request), "drain")
        return await set_drained(request, name, body.why or f"drained by {caller_of(request).user.name}")

    @router.post("/nodes/{name}/resume")
    async def resume(request: Request, name: str) -> JSONResponse:
        """Take the node back into use."""
        return await set_drained(request, name, None)

    async def set_drained(request: Request, name: str, why: str | None) -> JSONResponse:
        await govern.set_drained(house, caller_of(request).user.name, name, why)
        return JSONResponse(next(node for node in node_shapes(request) if node["name"] == name))


def our_nodes(house: House, shown: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Those that sessions run on, with what was read of them where something was."""
    cluster, holders = house.cluster(), holders_by_gpu(house.book.holding())
    rooms = cluster.rooms()
    shapes = []
    for node in cluster.nodes:
        seen = house.watch.host(node.name)
        sample = None if seen is None or seen.silent else seen.sample
        read_there = {} if sample is None else {gpu["uuid"]: gpu for gpu in seen_gpus(sample, holders, shown)}
        gpus = [gpu_with(gpu_shape(room, holders.get(room.gpu.uuid, []), shown), read_there) for room in rooms[node.name].gpus]
        shapes.append({**node_shape(node, rooms[node.name], gpus), **seen_shape(seen)})
    return shapes


def gpu_with(gpu: dict[str, Any], read_there: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What was decided about a GPU stands; what was read of it is added."""
    found = read_there.get(gpu["uuid"])
    if found is None:
        return {"label": str(gpu["index"]), "product": None, "now": UNSEEN, "processes": [], **NOTHING_READ, **gpu}
    return {**found, **gpu, "instances": found["instances"] or gpu["instances"]}


def add_queue_and_events(router: APIRouter, house: House) -> None:
    @router.get("/queue")
    async def queue(request: Request, limit: int = Query(100, ge=1, le=1000)) -> dict[str, Any]:
        """The line, first in turn first. Others' places are shown, their sessions' names are not."""
        caller, view = caller_of(request), house.outlook()
        waiting = [live for session in view.order[:limit] if (live := house.book.get(session.id)) is not None]
        rows = []
        for session in waiting:
            wait = wait_of(house, session, caller, advise=False)
            rows.append({
                "place": wait.place if wait else None,
                "name": session.name if may_see(caller, session) else None,
                "owner": session.owner,
                "gpus": str(session.request.share),
                "since": moment(session.submitted_at),
                "why": wait.summary if wait else session.why,
                "forecast_start": moment(wait.forecast_start) if wait else None,
                "forecast_low": moment(wait.forecast_low) if wait else None,
                "forecast_high": moment(wait.forecast_high) if wait else None,
                "forecast_why": wait.forecast_why if wait else None,
            })  # fmt: skip
        return {"items": rows, "waiting": house.book.waiting(), "next": None}

    @router.get("/events")
    async def events(
        request: Request,
        follow: bool = False,
        after: int | None = Query(None, ge=0, le=LARGEST_NUMBER),
        limit: int = Query(100, ge=1, le=1000),
        last_event_id: str | None = Header(None),
    ) -> Response:
        """What befell sessions: the newest as a page, or from `after` on; with `follow` as server-sent events."""
        caller = caller_of(request)
        owner = None if caller.is_admin else caller.user.name
        if follow:
            request.state.give_back = house.streams.take(caller.user.name)
            start = event_number(last_event_id) if last_event_id is not None else after
            begin = start if start is not None else await house.store.events.last_number()
            stream = while_allowed(event_stream(house, owner, begin), still_allowed(house.registry, request), house.bells.leaving)
            return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        found = await house.store.events.page(owner=owner, after=after or 0, limit=limit, newest=after is None)
        more = str(found[-1].number) if len(found) == limit and after is not None else None
        return JSONResponse({"items": [event_shape(event) for event in found], "next": more})


def event_number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise BadInput(f"Last-Event-ID: {text[:40]!r} is no event number", "Send the last `id` received.")
    return int(text)
