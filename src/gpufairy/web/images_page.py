"""The page of images: which there are and who may use them, versions side by side, what is being fetched, what waits for an admin."""
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.gallery import Offer
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.errors import FairyError
from gpufairy.core.image import image_name
from gpufairy.engines.contract import ImageShelf
from gpufairy.web.context import PageContext
from gpufairy.web.forms import acting, fields_of
from gpufairy.web.gauges import size_words
from gpufairy.web.image_pulls import Pull, Pulls
from gpufairy.web.image_versions import Repository, Version, repositories
from gpufairy.web.pages import LOOK_AGAIN_S, show
from gpufairy.web.sign_in import to_page
from gpufairy.web.speech import _, ngettext


@dataclass(frozen=True, slots=True)
class Images:
    answer: str
    next_step: str
    there: bool  # False: sessions run without images here
    fetches: bool  # False: nodes of a cluster fetch them, when a session starts
    may_pull: bool
    repositories: tuple[Repository, ...]
    waiting: tuple[Version, ...]  # for an admin's word; of others than admins, their own
    pulls: tuple[Pull, ...]
    default: str


def add_images_page(router: APIRouter, context: PageContext) -> None:
    house, pulls = context.house, Pulls(context.house)

    async def page(caller: Caller, typed: str = "", error: FairyError | None = None) -> Response:
        status = 200 if error is None else context.status_and_title(error)[0]
        seen = await images(house, caller, pulls.shown())
        return show(
            "images.html", status, user=caller.user.name, is_admin=caller.is_admin, refresh_s=LOOK_AGAIN_S,
            images=seen, typed=typed, error=error, fairy=context.fairy_command,
        )  # fmt: skip

    @router.get("/images")
    async def all_images(request: Request) -> Response:
        return await page(acting(request))

    @router.post("/images/pull")
    async def pull(request: Request) -> Response:
        typed, caller = (await fields_of(request, context.url)).get("image", "").strip(), acting(request)
        try:
            name = image_name(typed)
            house.gallery.check_pull(caller, name)
            house.gallery.on_shelf()
        except FairyError as error:
            return await page(caller, typed, error)
        pulls.begin(name, caller.user.name)
        return to_page("/images")

    @router.post("/images/remove")
    async def remove(request: Request) -> Response:
        fields, caller = await fields_of(request, context.url), acting(request)
        try:
            await house.gallery.remove(caller, image_name(fields.get("image", "")))
        except FairyError as error:
            return await page(caller, "", error)
        return to_page("/images")


async def images(house: House, caller: Caller, pulls: Sequence[Pull]) -> Images:
    gallery, user = house.gallery, caller.user.name
    fetches = gallery.shelf is not None and gallery.shelf.fetches
    offers = [] if gallery.shelf is None else await gallery.offers(caller)
    found = repositories(offers, gallery.rules, user, house.clock())
    waiting = [one for repository in found for one in repository.versions if one.waits and (caller.is_admin or one.own)]
    return Images(
        answer=answer(offers, gallery.shelf),
        next_step=next_step(caller, waiting, gallery.shelf),
        there=gallery.shelf is not None,
        fetches=fetches,
        may_pull=fetches and (gallery.rules.pull or caller.is_admin),
        repositories=found,
        waiting=tuple(waiting),
        pulls=tuple(pull for pull in pulls if pull.user == user or caller.is_admin),
        default=gallery.rules.default,
    )


def answer(offers: Sequence[Offer], shelf: ImageShelf | None) -> str:
    if shelf is None:
        return _("There are no images here: sessions run as processes of the machine.")
    usable = [offer for offer in offers if offer.refusal is None]
    if not usable:
        return _("No image lies on this machine yet.") if shelf.fetches else _("No node says yet that it has an image.")
    size = size_words(sum(offer.image.size_bytes for offer in offers))
    words = ngettext("You may use {count} image; all here take {size}.", "You may use {count} images; all here take {size}.", len(usable))
    return words.format(count=len(usable), size=size)


def next_step(caller: Caller, waiting: Sequence[Version], shelf: ImageShelf | None) -> str:
    if shelf is None:
        return _("Whoever runs the server can start it with --engine docker; then each session runs in an image of its own.")
    if waiting and caller.is_admin:
        count = len(waiting)
        return ngettext("{count} made from a session waits for your word.", "{count} made from sessions wait for your word.", count).format(
            count=count
        )
    if shelf.no_commits:
        return _("Start a session from one; what you install into your home stays with every image.")
    return _("Start a session from one; what you install in it can be made an image of your own on the session's page.")
