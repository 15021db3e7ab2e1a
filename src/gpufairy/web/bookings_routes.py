"""Routes of the bookings page: the calendar, booking, cancelling."""
import secrets
from datetime import datetime, timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.bookings import people_meant
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.booking import Booking
from gpufairy.core.errors import BadInput, FairyError, NotSignedIn
from gpufairy.core.people import Role
from gpufairy.web.asked import asked
from gpufairy.web.bookings_page import bookings_page, span_of
from gpufairy.web.context import PageContext
from gpufairy.web.forms import acting, fields_of
from gpufairy.web.pages import LOOK_AGAIN_S, page_route, show
from gpufairy.web.sign_in import to_page
from gpufairy.web.times import here
from gpufairy.wire.bookings import BookingBody
from gpufairy.wire.read import read

FIELDS = ("title", "gpus", "gpu_kind", "node", "from", "time", "who", "key")
ME = "me"  # whom a booking is for; else a team
STEP = timedelta(minutes=30)  # what the form says at first begins with the next half hour


def routes(context: PageContext) -> APIRouter:
    router, house = APIRouter(include_in_schema=False, route_class=page_route(context)), context.house

    @router.get("/bookings")
    async def bookings(request: Request) -> Response:
        return await calendar(request, first_form(house), None)

    @router.post("/bookings")
    async def book(request: Request) -> Response:
        fields, caller = await fields_of(request, context.url), acting(request)
        form = {name: fields.get(name, "").strip() for name in FIELDS}
        try:
            made = await book_asked(house, caller, form)
        except NotSignedIn:
            raise
        except FairyError as error:
            return await calendar(request, form, error)
        house.bells.place.set()
        return to_page(f"/bookings?day={here(made.start):%Y-%m-%d}&made={made.id}")

    @router.post("/bookings/{booking_id}/cancel")
    async def cancel(request: Request, booking_id: str) -> Response:
        """One that runs ends now, and its sessions go on as ordinary ones."""
        await fields_of(request, context.url)
        ended = await house.bookings.cancel(acting(request), booking_id)
        house.bells.place.set()
        return to_page(f"/bookings?day={here(ended.start):%Y-%m-%d}")

    async def calendar(request: Request, form: dict[str, str], error: FairyError | None) -> Response:
        caller, query = acting(request), request.query_params
        span = span_of(query.get("day", ""), query.get("span", ""), house.clock())
        page = await bookings_page(house, caller, span, query.get("made", ""))
        status = 200 if error is None else context.status_and_title(error)[0]
        is_admin = caller.user.role is Role.ADMIN
        return show(
            "bookings.html", status, user=caller.user.name, refresh_s=LOOK_AGAIN_S, is_admin=is_admin, page=page, form=form, error=error
        )  # fmt: skip

    return router


async def book_asked(house: House, caller: Caller, form: dict[str, str]) -> Booking:
    """As the API does it with the same body."""
    if not form["gpus"].isdecimal() or len(form["gpus"]) > 6:
        raise BadInput(f"gpus: {form['gpus'][:20]!r} is no number", "Write how many, such as 4.")
    said: dict[str, object] = {name: form[name] for name in ("title", "gpu_kind", "node", "time") if form[name]}
    team = None if form["who"] in ("", ME) else form["who"].removeprefix("team:")
    begins = moment_here(form["from"]).isoformat()
    body = read(BookingBody, {"title": "", **said, "gpus": int(form["gpus"]), "from": begins, "team": team}, "booking")
    who = people_meant(house.registry, house.teams, caller, body.users, body.team)
    ask = body.to_ask(caller.user.name, who, by_admin=caller.is_admin)
    return await house.bookings.make(ask, house.nodes, list(house.book.holding()), form["key"] or None)


def moment_here(text: str) -> datetime:
    """What a browser's field for a time says: without a zone, and so that of whoever looks."""
    try:
        found = datetime.fromisoformat(text)
        zone = asked().zone
        return found.astimezone() if zone is None or found.tzinfo is not None else found.replace(tzinfo=zone)
    except (ValueError, OverflowError):
        raise BadInput(f"from: {text[:40]!r} is no time", "Choose a day and a time.") from None


def first_form(house: House) -> dict[str, str]:
    """`key`: sent twice, it is one booking."""
    now = here(house.clock())
    begins = now.replace(minute=0, second=0, microsecond=0) + STEP * (1 + now.minute // 30)
    first = {"gpus": "1", "time": "2h", "who": ME, "from": f"{begins:%Y-%m-%dT%H:%M}", "key": secrets.token_urlsafe(12)}
    return dict.fromkeys(FIELDS, "") | first
