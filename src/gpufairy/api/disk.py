"""Routes of disk use: who has how much where, what is largest and oldest, how it grows, and what could be removed."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of
from gpufairy.api.people import meant
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment, number
from gpufairy.control.disk_deeds import ask_for_walk, made_images_bytes, places_on
from gpufairy.control.house import House
from gpufairy.core.disk import DiskLook, DiskUser, Place, Thing, Unmeasured, folders_within, used_at
from gpufairy.core.disk_advice import clean_up
from gpufairy.core.disk_limit import DiskLimit
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.names import nearest


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["readings"]), context.house

    @router.get("/disk")
    async def disk(
        request: Request,
        user: str | None = Query(None, max_length=200, description="admins: of this user alone, with all that is known"),
        node: str | None = Query(None, max_length=200, description="what lies on this host alone"),
    ) -> dict[str, Any]:
        """What is yours on disk; admins see everybody's, or with `user` somebody's. Null is not known."""
        caller, places = caller_of(request), places_on(house, node)
        if caller.is_admin and user is None:
            known = house.disk.users() if places is None else house.disk.users_on(places)
            looks = looks_by_name(house)
            people = [user_line(house, one, looks) for one in sorted(known.values(), key=lambda one: -one.bytes)]
            return {**state_shape(house), "items": people, "places": place_lines(house, places), "next": None}
        of = house.registry.user(meant(caller, user)).name
        found = house.disk.user(of, places, by_admin=of != caller.user.name)
        return {**state_shape(house), "items": [whole_user(house, of, found)], "places": [], "next": None}

    @router.get("/disk/folders")
    async def folders(place: str = Query(max_length=4096), below: str = Query("", max_length=4096)) -> dict[str, Any]:
        """The largest folders of a place, three deep, whoever's they are."""
        look = look_at(house, place)
        return {"place": look.place.name, "as_of": moment(look.at), "items": things(folders_within(look, below.strip("/"))), "next": None}

    @router.post("/disk/walks", status_code=202)
    async def walk(request: Request) -> JSONResponse:
        """Walk through all places now."""
        await ask_for_walk(house, caller_of(request).user.name)
        return JSONResponse(state_shape(house), 202)

    return router


def look_at(house: House, place: str) -> DiskLook:
    known = looks_by_name(house)
    if place not in known:
        raise NoSuchThing(f"no place {place[:60]!r} was walked through{nearest(place, known)}", f"Known: {', '.join(known) or 'none'}.")
    return known[place]


def state_shape(house: House) -> dict[str, Any]:
    disk = house.disk
    return {
        "as_of": moment(disk.as_of()), "walking": None if disk.walking is None else disk.walking.name,
        "why_unknown": "" if disk.all_places() else disk.why_none,
    }  # fmt: skip


def looks_by_name(house: House) -> dict[str, DiskLook]:
    return {look.place.name: look for look in house.disk.looks()}


def user_line(house: House, one: DiskUser, looks: Mapping[str, DiskLook]) -> dict[str, Any]:
    grown, limit = house.disk.growth_of(one), house.disk.limit(one.user)
    return {
        "user": one.user, "bytes": one.bytes, "inodes": one.inodes, "old_bytes": one.old_bytes,
        "day_bytes": grown.day_bytes, "week_bytes": grown.week_bytes, **limit_shape(limit),
        "places": [{"place": place, "bytes": size, **when_shape(house, looks.get(place))} for place, size in one.places],
    }  # fmt: skip


def when_shape(house: House, look: DiskLook | None) -> dict[str, Any]:
    """`old`: it was looked at so long ago that it may not be so any more."""
    return {"as_of": None if look is None else moment(look.at), "old": look is not None and house.disk.is_old(look)}


def limit_shape(limit: DiskLimit) -> dict[str, Any]:
    return {"limit_bytes": limit.limit_bytes, "enforced": limit.enforced, "why_not_enforced": limit.why_not, "next_step": limit.next_step}


def whole_user(house: House, name: str, found: DiskUser | None) -> dict[str, Any]:
    """Of somebody who has nothing, or where nobody has looked yet: null."""
    images = made_images_bytes(house, name)
    if found is None:
        unknown = dict.fromkeys(("bytes", "inodes", "old_bytes", "day_bytes", "week_bytes"))
        lists: dict[str, Any] = {"places": [], "folders": [], "largest": [], "oldest": [], "advice": []}
        return {"user": name, **unknown, **limit_shape(house.disk.limit(name)), **lists, "images_bytes": images}
    return {
        **user_line(house, found, looks_by_name(house)),
        "folders": things(found.folders), "largest": things(found.largest), "oldest": things(found.oldest),
        "advice": [asdict(one) for one in clean_up(found)], "images_bytes": images,
    }  # fmt: skip


def things(found: Iterable[Thing]) -> list[dict[str, Any]]:
    return [{"path": one.path, "bytes": one.bytes, "inodes": one.inodes or None, "used_at": moment(used_at(one))} for one in found]


def place_lines(house: House, places: Sequence[Place] | None) -> list[dict[str, Any]]:
    failed = {one.place.name: one for one in house.disk.unmeasured()}
    looks = looks_by_name(house)
    return [
        place_shape(place) | look_line(house, looks.get(place.name)) | trouble_line(failed.get(place.name))
        for place in (house.disk.all_places() if places is None else places)
    ]


def place_shape(place: Place) -> dict[str, Any]:
    return {"place": place.name, "path": place.path, "node": place.node or None}


def look_line(house: House, look: DiskLook | None) -> dict[str, Any]:
    if look is None:
        return {"bytes": None, "inodes": None, "as_of": None, "old": False}
    grown = house.disk.growth_of_place(look)
    return {
        "bytes": look.bytes, "inodes": look.inodes, **when_shape(house, look), "full": look.full, "took_s": number(round(look.took_s, 2)),
        "listed": look.listed, "trusted": look.trusted, "day_bytes": grown.day_bytes, "week_bytes": grown.week_bytes,
        "unread": look.unread, "mounts": look.mounts, "too_deep": look.too_deep, "troubles": list(look.troubles),
        "named_of_each": look.named, "owners_left_out": look.left_out,
    }  # fmt: skip


def trouble_line(failed: Unmeasured | None) -> dict[str, Any]:
    return {"why_unknown": "" if failed is None else failed.why, "next_step": "" if failed is None else failed.next_step}
