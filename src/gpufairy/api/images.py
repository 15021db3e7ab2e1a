"""Routes of images: those there are, fetching one, and an admin's word on those made here."""
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import made_image_shape, offer_shape
from gpufairy.control import govern
from gpufairy.core.errors import FairyError
from gpufairy.core.image import ImageState, image_name
from gpufairy.wire.changes import ImageBody
from gpufairy.wire.read import read


def routes(context: Context) -> APIRouter:
    router, gallery = APIRouter(prefix=API, tags=["images"]), context.house.gallery

    @router.get("/images")
    async def images(request: Request) -> dict[str, Any]:
        """All on this machine, and which of them you may use."""
        offers = await gallery.offers(caller_of(request))
        return {"items": [offer_shape(offer, gallery.rules) for offer in offers], "next": None}

    @router.post("/images/pull")
    async def pull(request: Request) -> StreamingResponse:
        """Fetch one (`{"image": "…"}`). A line of JSON for each step; the last says `done` or `error`."""
        name, caller = image_name(read(ImageBody, await json_body(request), "pull").image), caller_of(request)
        gallery.check_pull(caller, name)
        return StreamingResponse(told(gallery.on_shelf().pull(name)), media_type="application/x-ndjson")

    @router.post("/images/approve")
    async def approve(request: Request) -> dict[str, Any]:
        """Let everybody use an image that was made here."""
        body = read(ImageBody, await json_body(request), "approve")
        return made_image_shape(await govern.decide_image(context.house, caller_of(request).user.name, body.image, ImageState.APPROVED))

    @router.post("/images/refuse")
    async def refuse(request: Request) -> dict[str, Any]:
        """Nobody may use it, its maker included."""
        body = read(ImageBody, await json_body(request), "refuse")
        return made_image_shape(await govern.decide_image(context.house, caller_of(request).user.name, body.image, ImageState.REFUSED))

    @router.delete("/images", status_code=204)
    async def remove(request: Request, image: str) -> Response:
        """Remove one that you made; admins any."""
        await gallery.remove(caller_of(request), image_name(image))
        return Response(status_code=204)

    return router


async def told(steps: AsyncIterator[str]) -> AsyncIterator[str]:
    """The answer has begun, so an error is one more line."""
    try:
        async for step in steps:
            yield json.dumps({"words": step}) + "\n"
        yield json.dumps({"done": True}) + "\n"
    except FairyError as error:
        yield json.dumps({"error": error.detail, "next": error.next_step}) + "\n"
