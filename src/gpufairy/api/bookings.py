"""Routes of bookings: GPUs that are for certain people for a certain time."""
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control.bookings import people_meant
from gpufairy.control.house import House
from gpufairy.core.booking import Booking, Calendar
from gpufairy.core.booking_repair import Place, troubles
from gpufairy.core.errors import BadInput
from gpufairy.wire.bookings import BookingBody, moment_of
from gpufairy.wire.read import read

PAST = timedelta(days=30)  # how far back without a word
WHEN = "a time such as 2026-11-20T14:00:00Z"
TITLES = "Everybody here sees what is booked, by whom and for what."


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["bookings"]), context.house

    @router.get("/bookings")
    async def bookings(
        past: bool = Query(False, description="those that are over, too, of the last 30 days or since `from`"),
        from_: str | None = Query(None, alias="from", max_length=60, description=f"only those that end after {WHEN}"),
        to: str | None = Query(None, max_length=60, description=f"only those that begin before {WHEN}"),
    ) -> dict[str, Any]:
        """Every booking that is not over, by its start: whose, which GPUs, whether they are in use or lent."""
        start, end = None if from_ is None else moment_of(from_, "from"), None if to is None else moment_of(to, "to")
        if start is not None and end is not None and end <= start:
            raise BadInput(f"to: {to} is not after {from_}", "Give a later time.")
        return {"items": await shapes(house, start, end, past), "note": TITLES, "next": None}

    @router.post("/bookings", status_code=201)
    async def book(request: Request, idempotency_key: str | None = Header(None)) -> JSONResponse:
        """Book GPUs (`{"gpus": 4, "title": "CS231n", "from": "2026-11-20T14:00:00Z", "time": "2h", "team": "nlp"}`). All see the title."""
        caller, body = caller_of(request), read(BookingBody, await json_body(request), "booking")
        who = people_meant(house.registry, house.teams, caller, body.users, body.team)
        ask = body.to_ask(caller.user.name, who, by_admin=caller.is_admin)
        made = await house.bookings.make(ask, house.nodes, list(house.book.holding()), idempotency_key)
        house.bells.place.set()
        return JSONResponse({**shape(house, made, house.bookings.calendar(house.book.holding())), "note": TITLES}, 201)

    @router.delete("/bookings/{booking_id}")
    async def cancel(request: Request, booking_id: str) -> dict[str, Any]:
        """Cancel a booking of yours; admins cancel any. One that runs ends now, and its sessions go on as ordinary ones."""
        ended = await house.bookings.cancel(caller_of(request), booking_id)
        house.bells.place.set()
        return {**shape(house, ended, house.bookings.calendar(house.book.holding())), "state": "cancelled"}

    return router


async def shapes(house: House, start: datetime | None, end: datetime | None, past: bool) -> list[dict[str, Any]]:
    now, calendar = house.clock(), house.bookings.calendar(house.book.holding())
    found: Sequence[Booking] = house.bookings.coming()
    if past or (start is not None and start < now):
        found = [*await house.bookings.past(start or now - PAST, now), *found]
    return [shape(house, one, calendar) for one in found if (start is None or one.end > start) and (end is None or one.start < end)]


def shape(house: House, booking: Booking, calendar: Calendar) -> dict[str, Any]:
    now, known = house.clock(), house.bookings.known(house.nodes)
    trouble = troubles(booking, house.nodes, known) if booking.end > now else {}
    return {
        "id": booking.id, "title": booking.title, "made_by": booking.made_by, "who": list(booking.who),
        "from": moment(booking.start), "until": moment(booking.end), "made_at": moment(booking.made_at),
        "state": state(booking, now),
        "gpus": [
            {**place_shape(gpu, known.get(gpu)), "trouble": trouble.get(gpu), "lent": calendar.is_lent(booking, gpu, now)}
            for gpu in booking.gpus
        ],
        "trouble": "; ".join(trouble.values()) or None,
    }  # fmt: skip


def place_shape(gpu: str, place: Place | None) -> dict[str, Any]:
    """Nulls for one that this server has never seen."""
    if place is None:
        return {"uuid": gpu, "node": None, "index": None, "kind": None, "simulated": None}
    return {"uuid": gpu, "node": place.node, "index": place.index, "kind": place.kind, "simulated": place.simulated}


def state(booking: Booking, now: datetime) -> str:
    if now < booking.start:
        return "ahead"
    return "running" if booking.runs(now) else "over"
