"""Routes for the SSH gateway alone: who may come in, and the door to a session."""
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from gpufairy.api.context import Context
from gpufairy.api.door import LARGEST_NUMBER, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control.enter import Entry, Knock, enter
from gpufairy.control.roster import Roster, roster_after
from gpufairy.core.errors import BadInput, NotAllowed
from gpufairy.core.names import session_name, user_name
from gpufairy.core.purpose import Purpose
from gpufairy.wire.gateway import DoorBody, RefusalsBody, SignInBody
from gpufairy.wire.read import read

LONGEST_WAIT_S = 25


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=f"{API}/gateway", tags=["gateway"]), context.house

    @router.get("/roster")
    async def roster(after: int = Query(0, ge=0, le=LARGEST_NUMBER)) -> dict[str, Any]:
        """People and their SSH keys, when they differ from that revision or half a minute has gone; sessions about to end."""
        return roster_shape(await roster_after(house, after, LONGEST_WAIT_S))

    @router.post("/doors")
    async def doors(request: Request, wait: float = Query(0, ge=0, le=LONGEST_WAIT_S)) -> dict[str, Any]:
        """The door to somebody's session, which is started if need be; or why it is not open yet."""
        body = read(DoorBody, await json_body(request), "door")
        user = house.registry.user(user_name(body.user))
        if user.disabled:
            raise NotAllowed(f"{user.name} is shut out", "Ask an admin.")
        name = None if body.name is None else session_name(body.name)
        if body.purpose not in set(Purpose):
            raise BadInput(f"purpose: found {body.purpose[:40]!r}", f"Write one of {', '.join(Purpose)}.")
        return entry_shape(await enter(house, Knock(user, name, Purpose(body.purpose)), context.default_session, wait))

    @router.post("/signin-links", status_code=201)
    async def sign_in_link(request: Request) -> JSONResponse:
        """For somebody who has just proven their SSH key: a link that signs them in to the page, once, within an hour."""
        user = house.registry.user(user_name(read(SignInBody, await json_body(request), "sign-in").user))
        if user.disabled:
            raise NotAllowed(f"{user.name} is shut out", "Ask an admin.")
        return JSONResponse({"url": f"{context.url}/signin?code={context.links.make(user.name)}"}, 201)

    @router.post("/refusals")
    async def refusals(request: Request) -> dict[str, str]:
        """Whom the gateway turned away since it last told, by limit; seen in /metrics."""
        house.refusals.add(read(RefusalsBody, await json_body(request), "refusals").by_limit())
        return {"status": "ok"}

    return router


def roster_shape(roster: Roster) -> dict[str, Any]:
    people = [
        {"name": name, "keys": [{"fingerprint": key.fingerprint, "text": key.text} for key in keys]} for name, keys in roster.keys.items()
    ]
    endings = [{**asdict(ending), "ends_at": moment(ending.ends_at)} for ending in roster.endings]
    return {"revision": roster.revision, "people": people, "endings": endings, "notices": [asdict(notice) for notice in roster.notices]}


def entry_shape(entry: Entry) -> dict[str, Any]:
    session = None if entry.session is None else {"id": entry.session.id, "name": entry.session.name}
    if entry.door is None:
        return {"state": "waiting", "session": session, "words": entry.words}
    return {"state": "open", "session": session, "door": asdict(entry.door), "greeting": entry.greeting}
