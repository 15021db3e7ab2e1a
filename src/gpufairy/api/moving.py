"""Routes of a move from one server to another, for admins: the past of sessions, readings, and the files of homes."""
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from gpufairy.api.context import Context
from gpufairy.api.door import LARGEST_NUMBER, caller_of, json_body, whole_body
from gpufairy.api.policy import API
from gpufairy.control import moving
from gpufairy.control.house import House
from gpufairy.control.moving_homes import MovingHomes
from gpufairy.control.results import chained
from gpufairy.core.errors import EngineRefused
from gpufairy.wire.moving import MovedBody, PathsBody, WantedBody
from gpufairy.wire.read import read


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["move"])
    add_past_routes(router, context.house)
    add_home_routes(router, MovingHomes(context.house))
    return router


def add_past_routes(router: APIRouter, house: House) -> None:
    @router.get("/move/past")
    async def past(after: int = Query(0, ge=0, le=LARGEST_NUMBER)) -> dict[str, Any]:
        """Sessions that are over, each with its events and what it held, oldest first."""
        items, more = await moving.past_page(house, after)
        return {"items": items, "next": more}

    @router.post("/move/past")
    async def take_past(request: Request) -> dict[str, Any]:
        """Take them in. One that is here already is left as it is."""
        items = read(MovedBody, await json_body(request), "past").items
        return {"new": await moving.take_past(house, caller_of(request).user.name, items), "of": len(items)}

    @router.get("/move/readings")
    async def readings(after: int = Query(0, ge=0, le=LARGEST_NUMBER)) -> dict[str, Any]:
        """What GPUs, hosts, users and sessions did, in stretches."""
        items, more = await moving.readings_page(house, after)
        return {"items": items, "next": more}

    @router.post("/move/readings")
    async def take_readings(request: Request) -> dict[str, Any]:
        """Take them in. Of two that tell of the same, the one that knows more stays."""
        items = read(MovedBody, await json_body(request), "readings").items
        return {"new": await moving.take_readings(house, items), "of": len(items)}


def add_home_routes(router: APIRouter, homes: MovingHomes) -> None:
    @router.get("/move/homes/{user}")
    async def home(user: str) -> StreamingResponse:
        """The files of a home: a line of JSON for each, the last one says `done`."""
        return StreamingResponse(await begun(homes.listed(user)), media_type="application/x-ndjson")

    @router.post("/move/homes/{user}/hashes")
    async def hashes(request: Request, user: str) -> dict[str, Any]:
        """SHA-256 of these files."""
        return {"items": await homes.hashes(user, read(PathsBody, await json_body(request), "hashes").paths)}

    @router.post("/move/homes/{user}/read")
    async def read_files(request: Request, user: str) -> StreamingResponse:
        """These files: a line of JSON and the bytes that it tells of, piece by piece; the last line says `done`."""
        wanted = [{"path": file.path, "offset": file.offset} for file in read(WantedBody, await json_body(request), "read").wanted]
        await homes.note_read(caller_of(request).user.name, user)
        return StreamingResponse(await begun(homes.read(user, wanted)), media_type="application/octet-stream")

    @router.post("/move/homes/{user}/pieces")
    async def pieces(request: Request, user: str) -> dict[str, Any]:
        """Write what `read` gave, as its body. What became of each piece."""
        await homes.note_written(caller_of(request).user.name, user)
        return {"items": await homes.put(user, await whole_body(request))}


async def begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """With its first chunk at hand, so that a no is still an answer of its own."""
    first = await anext(chunks, None)
    if first is None:
        raise EngineRefused("the home says nothing of its files", "See the server's log.")
    return chained(first, chunks)
