"""What one does to a session on its page: keep it, stop it, start it again, swap its image, make an image of it."""
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.alter import keep_longer, running, swap_image
from gpufairy.control.commit import commit
from gpufairy.control.door import ask_to_stop
from gpufairy.control.find import find_session
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.control.resume import resume
from gpufairy.core.amounts import parse_duration, show_size
from gpufairy.core.errors import FairyError
from gpufairy.core.image import ImageState, image_name, own_prefix
from gpufairy.core.people import Role
from gpufairy.core.session import Session
from gpufairy.web.context import PageContext
from gpufairy.web.forms import acting, caller_of, fields_of, on_this_site
from gpufairy.web.pages import show
from gpufairy.web.sign_in import to_page
from gpufairy.web.speech import _
from gpufairy.web.times import clock
from gpufairy.web.under_way import Doing, UnderWay


@dataclass(frozen=True, slots=True)
class Choice:
    """An image that a session may be swapped to."""

    name: str
    size: str
    cuda: str
    made: str  # by whom, of one that was made here
    refusal: str


def add_actions(router: APIRouter, context: PageContext) -> None:
    house = context.house

    @router.post("/sessions/{name}/keep")
    async def keep(request: Request, name: str) -> Response:
        fields, session = await fields_of(request, context.url), await find_session(house, caller_of(request), name)
        await keep_longer(house, acting(request), session, parse_duration(fields.get("time", "2h")))
        return to_page(on_this_site(fields.get("back") or f"/sessions/{name}"))

    @router.post("/sessions/{name}/stop")
    async def stop(request: Request, name: str) -> Response:
        await fields_of(request, context.url)
        session, user = await find_session(house, caller_of(request), name), caller_of(request).user.name
        await ask_to_stop(house, [session], user, f"stopped by {user}")
        return to_page(f"/sessions/{name}")

    @router.post("/sessions/{name}/resume")
    async def start_again(request: Request, name: str) -> Response:
        await fields_of(request, context.url)
        new = await resume(house, acting(request), await find_session(house, caller_of(request), name))
        return to_page(f"/sessions/{new.name}")


def add_image_actions(router: APIRouter, context: PageContext, under_way: UnderWay) -> None:
    """Each has a page of its own, with the form; what was typed and what was wrong with it stand there together."""
    house = context.house

    @router.get("/sessions/{name}/swap")
    async def swap_form(request: Request, name: str) -> Response:
        return await swap_page(context, request, await find_session(house, caller_of(request), name))

    @router.post("/sessions/{name}/swap")
    async def swap(request: Request, name: str) -> Response:
        fields, session = await fields_of(request, context.url), await find_session(house, caller_of(request), name)
        image = fields.get("image", "")
        try:
            doing = Doing("swap", image_name(image), house.clock())
            await under_way.begin(session.id, doing, swapped(house, acting(request), session, doing.image))
        except FairyError as error:
            return await swap_page(context, request, session, image, error)
        return to_page(f"/sessions/{name}")

    @router.get("/sessions/{name}/commit")
    async def commit_form(request: Request, name: str) -> Response:
        return commit_page(context, request, await find_session(house, caller_of(request), name))

    @router.post("/sessions/{name}/commit")
    async def make_image(request: Request, name: str) -> Response:
        fields, session = await fields_of(request, context.url), await find_session(house, caller_of(request), name)
        image = fields.get("image", "")
        try:
            doing = Doing("commit", image_name(image), house.clock())
            await under_way.begin(session.id, doing, committed(house, acting(request), session, doing.image))
        except FairyError as error:
            return commit_page(context, request, session, image, error)
        return to_page(f"/sessions/{name}")


async def swapped(house: House, caller: Caller, session: Session, image: str) -> str:
    await swap_image(house, caller, session, image)
    return _("It goes on with {image}, in the same place and with the same files.").format(image=image)


async def committed(house: House, caller: Caller, session: Session, image: str) -> str:
    made = await commit(house, caller, session, image)
    words = _("Image {image} is made: {size}.").format(image=made.name, size=show_size(made.size_bytes))
    if made.state is ImageState.WAITING:
        words += " " + _("You can use it now; others can when an admin has approved it.")
    return words


async def swap_page(
    context: PageContext, request: Request, session: Session, typed: str = "", error: FairyError | None = None
) -> Response:
    caller, house = caller_of(request), context.house
    running(house, session)
    offers = await house.gallery.offers(acting(request))
    now = house.clock()
    choices = [
        Choice(
            offer.image.name, show_size(offer.image.size_bytes), offer.image.cuda or "",
            "" if offer.made is None else _("by {owner}, {at}").format(owner=offer.made.owner, at=clock(offer.made.made_at, now)),
            offer.refusal or "",
        )
        for offer in offers
    ]  # fmt: skip
    return show(
        "session_swap.html", 200 if error is None else context.status_and_title(error)[0], user=caller.user.name,
        is_admin=caller.user.role is Role.ADMIN, session=session, choices=choices, typed=typed,
        error=error, image=session.request.image or house.gallery.rules.default, shelf=house.gallery.on_shelf(),
    )  # fmt: skip


def commit_page(context: PageContext, request: Request, session: Session, typed: str = "", error: FairyError | None = None) -> Response:
    caller, house = caller_of(request), context.house
    shelf = house.gallery.on_shelf()
    running(house, session)
    suggested = f"{own_prefix(caller.user.name, caller.user.uid)}{session.name}:{house.clock():%Y-%m-%d}"
    return show(
        "session_commit.html", 200 if error is None else context.status_and_title(error)[0], user=caller.user.name,
        is_admin=caller.user.role is Role.ADMIN, session=session, typed=typed or suggested, error=error,
        approval=house.gallery.rules.commit == "approve", stands_still=shelf.fetches, why_not=shelf.no_commits,
    )  # fmt: skip
