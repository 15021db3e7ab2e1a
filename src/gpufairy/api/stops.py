"""The route that stops many sessions at once: told one by one, those that wait would start in the place of those that leave."""
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import session_shape
from gpufairy.control.door import ask_to_stop
from gpufairy.control.find import find_session
from gpufairy.core.errors import BadInput, NoSuchThing
from gpufairy.core.session import Session
from gpufairy.wire.read import read
from gpufairy.wire.submit import StopBody


def routes(context: Context) -> APIRouter:
    house, router = context.house, APIRouter(prefix=API, tags=["sessions"])

    @router.post("/stops", status_code=202)
    async def stop_sessions(request: Request) -> JSONResponse:
        """Ask many to leave at once: those named, or with `all` every live one of yours. Names that are not there are listed apart."""
        body, caller = read(StopBody, await json_body(request), "stops"), caller_of(request)
        if bool(body.names) == body.all:
            found_both = "names and all" if body.all else "neither names nor all"
            raise BadInput(f"stops: found {found_both}", 'Send {"names": ["…"]} or {"all": true}.')
        found: list[Session] = [session for session in house.book if body.all and session.owner == caller.user.name]
        missing: list[dict[str, Any]] = []
        for name in body.names:
            try:
                found.append(await find_session(house, caller, name))
            except NoSuchThing as error:
                missing.append({"name": name, "detail": error.detail})
        stopped = await ask_to_stop(house, found, caller.user.name, f"stopped by {caller.user.name}")
        return JSONResponse({"items": [session_shape(session, reader=caller.user.name) for session in stopped], "missing": missing}, 202)

    return router
