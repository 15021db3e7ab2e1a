"""Routes of classes: made of a roster, changed, reset, archived; links for their students, and what they handed in."""
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment, number
from gpufairy.control import class_deeds
from gpufairy.control.class_deeds import Looked
from gpufairy.control.class_links import has_come, make_links
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.classes import HAND_IN, Bounds, Member, SchoolClass
from gpufairy.core.errors import Conflict, NotAllowed
from gpufairy.engines.archive import tar_stream
from gpufairy.wire.classes import ClassBody, ClassChangeBody, LinksBody, ResetBody, RosterBody
from gpufairy.wire.read import read


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["people"])
    add_look_routes(router, context.house)
    add_change_routes(router, context)
    return router


def add_look_routes(router: APIRouter, house: House) -> None:
    @router.get("/classes")
    async def classes(request: Request) -> dict[str, Any]:
        """Those that you teach or take; admins see all."""
        caller = caller_of(request)
        return {"items": [class_shape(house, found) for found in house.classes.all() if sees(house, caller, found)], "next": None}

    @router.get("/classes/{name}")
    async def one_class(request: Request, name: str) -> dict[str, Any]:
        """One class with its students, for admins and its teachers."""
        caller, found = caller_of(request), house.classes.named(name)
        check_teaches(caller, found)
        linked = await house.classes.store.linked()
        students = [member_shape(house, member, member.user in linked) for member in house.classes.members(name)]
        return {**class_shape(house, found), "students": students}

    @router.get("/classes/{name}/handins")
    async def hand_ins(request: Request, name: str) -> Response:
        """All that was handed in, a folder for each student, as a tar stream. For admins and the teachers of the class."""
        caller, found, folders = caller_of(request), house.classes.named(name), house.classes.folders
        check_teaches(caller, found)
        if folders is None:
            raise Conflict("hand-ins are not on this machine's disk", "See where the engine keeps them.")
        return StreamingResponse(tar_stream(folders.hand_ins, found.name), media_type="application/x-tar")


def add_change_routes(router: APIRouter, context: Context) -> None:
    house = context.house

    @router.post("/classes", status_code=201)
    async def add_class(request: Request) -> JSONResponse:
        """Make a class of a roster (a CSV file, as base64): accounts, team, quota. With `dry_run` it is only looked at."""
        body, actor = read(ClassBody, await json_body(request), "class"), caller_of(request).user.name
        if body.dry_run:
            return JSONResponse(looked_shape(house, class_deeds.look_at_new(house, actor, body)))
        return JSONResponse(looked_shape(house, await class_deeds.add_class(house, actor, body)), 201)

    @router.patch("/classes/{name}")
    async def change_class(request: Request, name: str) -> dict[str, Any]:
        """Other dates, teachers or defaults."""
        body = read(ClassChangeBody, await json_body(request), "class")
        return class_shape(house, await class_deeds.change_class(house, caller_of(request).user.name, name, body))

    @router.post("/classes/{name}/roster")
    async def apply_roster(request: Request, name: str) -> dict[str, Any]:
        """Apply a roster again: who is new is added; who is missing is kept, or with `missing: disable` shut out."""
        body = read(RosterBody, await json_body(request), "roster")
        return looked_shape(house, await class_deeds.apply_roster(house, caller_of(request).user.name, name, body))

    @router.post("/classes/{name}/reset")
    async def reset(request: Request, name: str) -> dict[str, Any]:
        """End all sessions of its students; with `homes: aside` their homes are set aside, and empty ones take their place."""
        body = read(ResetBody, await json_body(request), "reset")
        sessions = await class_deeds.reset_class(house, caller_of(request).user.name, name, body)
        return {"class": name, "sessions_ended": [f"{session.owner}+{session.name}" for session in sessions]}

    @router.post("/classes/{name}/archive")
    async def archive(request: Request, name: str) -> dict[str, Any]:
        """Close it now: accounts are shut, sessions end, homes are set aside, hand-ins stay."""
        return class_shape(house, await class_deeds.archive_class(house, caller_of(request).user.name, name))

    @router.post("/classes/{name}/links", status_code=201)
    async def links(request: Request, name: str) -> JSONResponse:
        """One-time sign-in links, good until the class ends: in this answer, and nowhere else."""
        body, actor = read(LinksBody, await json_body(request), "links"), caller_of(request).user.name
        made = await make_links(house, actor, house.classes.named(name), body.users, all_of_them=body.all)
        items = [{**named(one.member), "url": f"{context.url}/join?code={one.code}"} for one in made]
        return JSONResponse({"class": name, "items": items}, 201)

    @router.delete("/classes/{name}", status_code=204)
    async def remove(request: Request, name: str) -> Response:
        """Forget one that is archived. Accounts, hand-ins and homes set aside stay."""
        await class_deeds.remove_class(house, caller_of(request).user.name, name)
        return Response(status_code=204)


def sees(house: House, caller: Caller, found: SchoolClass) -> bool:
    user = caller.user.name
    return caller.is_admin or user in found.teachers or any(member.user == user for member in house.classes.members(found.name))


def check_teaches(caller: Caller, found: SchoolClass) -> None:
    if not caller.is_admin and caller.user.name not in found.teachers:
        raise NotAllowed(f"class {found.name} is not taught by {caller.user.name}", "Ask its teacher, or an admin.")


def class_shape(house: House, found: SchoolClass) -> dict[str, Any]:
    return {
        "name": found.name, "state": found.state(house.clock()), "team": found.team,
        "students_count": len(house.classes.members(found.name)),
        "start": moment(found.start), "end": moment(found.end), "due": moment(found.due), "hand_in": hand_in_path(house, found),
        "hand_in_open": house.classes.takes_hand_ins(found), "preset": found.preset, "gpus": found.gpus, "image": found.image,
        "quota": bounds_shape(found.quota), "each": bounds_shape(found.each), "teachers": list(found.teachers), "homes": found.homes,
        "made_by": found.made_by, "made_at": moment(found.made_at), "archived_at": moment(found.archived_at),
    }  # fmt: skip


def hand_in_path(house: House, found: SchoolClass) -> str | None:
    """In sessions; None: the engine puts no folders into them."""
    return f"/mnt/{HAND_IN}/{found.name}" if house.classes.mounts_hand_ins else None


def bounds_shape(bounds: Bounds) -> dict[str, Any]:
    gpus, hours = (None if value is None else number(value) for value in (bounds.gpus, bounds.gpu_hours))
    return {"gpus": gpus, "gpu_hours": hours, "sessions": bounds.sessions}


def named(member: Member) -> dict[str, Any]:
    return {"user": member.user, "name": member.full_name or None, "email": member.email or None}


def member_shape(house: House, member: Member, linked: bool) -> dict[str, Any]:
    has_link = {"signed_in": has_come(house, member.user), "link_waits": linked}
    resets = member.reset_at is not None
    return {**named(member), "standing": member.standing, "account_made_here": member.made_here, **has_link, "being_reset": resets}


def looked_shape(house: House, looked: Looked) -> dict[str, Any]:
    """What a roster does or would do."""
    plan = looked.plan
    kinds = {"added": plan.added, "back": plan.back, "joined": plan.joined, "same": plan.same, "missing": plan.missing}
    return {
        "class": class_shape(house, looked.taught), "encoding": looked.roster.encoding or None,
        "delimiter": looked.roster.delimiter or None, "columns": list(looked.roster.columns),
        **{kind: [named(member) for member in members] for kind, members in kinds.items()},
        "faults": [{"line": fault.line or None, "what": fault.words} for fault in plan.faults],
    }  # fmt: skip
