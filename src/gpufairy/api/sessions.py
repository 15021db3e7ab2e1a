"""Routes of sessions: submit, list, show, wait, stop, log, results, events, why."""
from typing import Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpufairy.api.context import Context
from gpufairy.api.door import LARGEST_NUMBER, caller_of, check_still_allowed, json_body, still_allowed
from gpufairy.api.policy import API
from gpufairy.api.shapes import event_shape, session_shape, wait_shape
from gpufairy.control import results
from gpufairy.control.door import ask_to_stop, notes_on, submit
from gpufairy.control.find import find_session, wait_of
from gpufairy.control.follow import all_logs, changed, while_allowed
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, NotAllowed
from gpufairy.core.explain import Wait
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.wire.read import read
from gpufairy.wire.submit import SubmitBody

LONGEST_PAGE = 1000
LONGEST_WAIT_S = 60.0  # of one long poll; the client asks again
PHASES_OF = {"PENDING": (Phase.QUEUED, Phase.PLACED), **{p.name: (p,) for p in Phase if p not in (Phase.QUEUED, Phase.PLACED)}}
LIVE = tuple(phase for phase in Phase if phase is not Phase.ENDED)


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["sessions"])
    add_submit_and_list(router, context)
    add_show_and_stop(router, context.house)
    add_what_it_left(router, context.house)
    return router


def shape(house: House, session: Session, caller: Caller) -> dict[str, Any]:
    told = session_shape(session, wait_of(house, session, advise=False), reader=caller.user.name)
    return {**told, "root_inside": house.gallery.root_inside(session)}


def add_submit_and_list(router: APIRouter, context: Context) -> None:
    house = context.house

    @router.post("/sessions", status_code=201)
    async def submit_session(request: Request, idempotency_key: str | None = Header(None)) -> JSONResponse:
        """Submit a session; with `count`, so many of them. A request that can never fit is refused (422); one that fits later waits."""
        body = read(SubmitBody, await json_body(request), "session")
        sessions = await submit(house, caller_of(request), body, context.presets, idempotency_key)
        notes = notes_on(sessions[0].request, house.engine.ignores, house.engine.name)
        shapes = [{**session_shape(session, Wait(None, "just submitted"), reader=session.owner), "notes": notes} for session in sessions]
        return JSONResponse({"items": shapes} if body.count is not None else shapes[0], 201)

    @router.get("/sessions")
    async def list_sessions(
        request: Request,
        *,
        all: bool = Query(False, description="ended ones too"),
        all_users: bool = Query(False, description="admins: everybody's"),
        owner: str | None = None,
        state: str | None = Query(None, description="PENDING, STARTING, RUNNING, STOPPING, LOST or ENDED"),
        name: str | None = None,
        limit: int = Query(50, ge=1, le=LONGEST_PAGE),
        after: str | None = Query(None, description="`next` of the page before"),
    ) -> dict[str, Any]:
        """Sessions, newest first: your own; admins may ask for another owner's or all."""
        caller = caller_of(request)
        whose = None if all_users and owner is None else owner or caller.user.name
        if whose != caller.user.name and not caller.is_admin:
            raise NotAllowed("others' sessions are shown to admins alone", "Leave out owner and all_users.")
        phases = phases_named(state) if state is not None else None if all else LIVE
        found = await house.store.sessions.page(owner=whose, states=phases, name=name, limit=limit + 1, after=cursor(after))
        page = [house.book.get(session.id) or session for session in found[:limit]]
        return {"items": [shape(house, session, caller) for session in page], "next": str(page[-1].number) if len(found) > limit else None}


def add_show_and_stop(router: APIRouter, house: House) -> None:
    @router.get("/sessions/{name}")
    async def show_session(
        request: Request,
        name: str,
        wait: float = Query(0, ge=0, le=LONGEST_WAIT_S),
        unlike: int | None = Query(None, ge=0, le=LARGEST_NUMBER),
    ) -> dict[str, Any]:
        """One session. With `wait` (seconds) and `unlike` (a revision) the answer comes when its revision differs, or the time is up."""
        caller = caller_of(request)
        session = await find_session(house, caller, name)
        if wait and session.revision == unlike and session.phase is not Phase.ENDED:
            request.state.give_back = house.streams.take(caller.user.name)
            session = await changed(house, session, wait)
            check_still_allowed(house.registry, request)
        return shape(house, session, caller)

    @router.delete("/sessions/{name}", status_code=202)
    async def stop_session(request: Request, name: str) -> JSONResponse:
        """Ask a session to leave. It ends when it has: look again. Of one that has ended nothing changes."""
        caller = caller_of(request)
        session = await find_session(house, caller, name)
        (asked,) = await ask_to_stop(house, [session], caller.user.name, f"stopped by {caller.user.name}")
        return JSONResponse(shape(house, asked, caller), 202)


def add_what_it_left(router: APIRouter, house: House) -> None:
    @router.get("/sessions/{name}/logs")
    async def session_log(
        request: Request,
        name: str,
        follow: bool = False,
        from_bytes: int = Query(0, alias="from", ge=0, le=LARGEST_NUMBER, description="offset to begin at, over all attempts"),
        this_attempt: bool = Query(False, description="with follow: end with the attempt of now, and not with the session"),
    ) -> StreamingResponse:
        """What it printed, all attempts one after the other. With `follow` the answer goes on until it has ended."""
        caller = caller_of(request)
        session = await find_session(house, caller, name)
        if follow:
            request.state.give_back = house.streams.take(caller.user.name)
        log = all_logs(house, session.id, follow, from_bytes, this_attempt=this_attempt)
        chunks = while_allowed(log, still_allowed(house.registry, request), house.bells.leaving) if follow else log
        return StreamingResponse(chunks, media_type="text/plain; charset=utf-8")

    @router.get("/sessions/{name}/results")
    async def session_results(request: Request, name: str) -> Response:
        """What it wrote into $FAIRY_RESULTS (/results in a container), as a tar stream; 204 if nothing."""
        chunks = await results.archive(house, await find_session(house, caller_of(request), name))
        return Response(status_code=204) if chunks is None else StreamingResponse(chunks, media_type="application/x-tar")

    @router.get("/sessions/{name}/results/files")
    async def result_files(request: Request, name: str) -> dict[str, Any]:
        """The same as a list: the first thousand by path; `count` and `size_bytes` are of all, or of the first ten thousand found."""
        found = await results.files(house, await find_session(house, caller_of(request), name))
        items = [{"path": one.path, "size_bytes": one.size_bytes} for one in found.named]
        return {"items": items, "next": None, "count": found.count, "size_bytes": found.size_bytes, "whole": found.whole}

    @router.get("/sessions/{name}/results/files/{path:path}")
    async def result_file(request: Request, name: str, path: str) -> Response:
        """One of them, as it was written."""
        found = await results.file(house, await find_session(house, caller_of(request), name), path)
        headers = {"Content-Length": str(found.size_bytes), **results.as_download(path.rpartition("/")[2])}
        return StreamingResponse(found.chunks, media_type="application/octet-stream", headers=headers)

    @router.get("/sessions/{name}/events")
    async def session_events(
        request: Request,
        name: str,
        limit: int = Query(200, ge=1, le=LONGEST_PAGE),
        after: int = Query(0, ge=0, le=LARGEST_NUMBER),
    ) -> dict[str, Any]:
        """What befell it, oldest first."""
        session = await find_session(house, caller_of(request), name)
        events = await house.store.events.page(session_id=session.id, after=after, limit=limit)
        return {"items": [event_shape(event) for event in events], "next": str(events[-1].number) if len(events) == limit else None}

    @router.get("/sessions/{name}/why")
    async def why(request: Request, name: str) -> dict[str, Any]:
        """Why it waits: its place, what each node says, when it may start, what would help."""
        caller = caller_of(request)
        session = await find_session(house, caller, name)
        told = wait_of(house, session, caller) or Wait(None, session.why)
        return wait_shape(session, told, house.book.waiting(), reader=caller.user.name)


def phases_named(state: str) -> tuple[Phase, ...]:
    if state.upper() not in PHASES_OF:
        raise BadInput(f"state: found {state[:40]!r}", f"Write one of {', '.join(PHASES_OF)}.")
    return PHASES_OF[state.upper()]


def cursor(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isdecimal() or len(after) > 18:
        raise BadInput(f"after: {after[:40]!r} is no cursor", "Send `next` of the page before, as it is.")
    return int(after)
