"""Routes that change a session which runs: keep it longer, swap its image, make an image of it. And one that starts it again."""
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import made_image_shape, session_shape
from gpufairy.control.alter import keep_longer, swap_image
from gpufairy.control.commit import commit
from gpufairy.control.find import find_session
from gpufairy.control.resume import resume
from gpufairy.core.amounts import parse_duration
from gpufairy.wire.changes import ImageBody, KeepBody
from gpufairy.wire.read import read


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["sessions"]), context.house

    @router.post("/sessions/{name}/keep")
    async def keep(request: Request, name: str) -> dict[str, Any]:
        """Let it run at least so long from now (`{"time": "2h"}`), and ask nothing of it back until then, used or not."""
        body, caller = read(KeepBody, await json_body(request), "keep"), caller_of(request)
        session = await find_session(house, caller, name)
        return session_shape(await keep_longer(house, caller, session, parse_duration(body.time)), reader=caller.user.name)

    @router.post("/sessions/{name}/resume", status_code=201)
    async def resume_session(request: Request, name: str) -> JSONResponse:
        """Start one that is over again: same name and request, from the image that was kept of it if there is one."""
        caller = caller_of(request)
        resumed = await resume(house, caller, await find_session(house, caller, name))
        return JSONResponse(session_shape(resumed, reader=caller.user.name), 201)

    @router.post("/sessions/{name}/swap")
    async def swap(request: Request, name: str) -> dict[str, Any]:
        """Another image in its place (`{"image": "…"}`): same name, home, mounts and GPUs. Undone by itself if that does not start."""
        body, caller = read(ImageBody, await json_body(request), "swap"), caller_of(request)
        swapped = await swap_image(house, caller, await find_session(house, caller, name), body.image)
        return session_shape(swapped, reader=caller.user.name)

    @router.post("/sessions/{name}/commit", status_code=201)
    async def make_image(request: Request, name: str) -> JSONResponse:
        """Make an image of it as it is now (`{"image": "…"}`), without its home: its size, and which packages came and went."""
        body, caller = read(ImageBody, await json_body(request), "commit"), caller_of(request)
        made = await commit(house, caller, await find_session(house, caller, name), body.image)
        return JSONResponse(made_image_shape(made), 201)

    return router
