"""Admin: images. Those made from sessions that wait for a yes or a no, and all others on the machine."""
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import govern
from gpufairy.control.gallery import Offer
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.amounts import show_size
from gpufairy.core.image import ImageState, MadeImage, image_name
from gpufairy.web.admin import Fields, add_page, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.forms import acting, no_such_deed
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark, ago_words, hue_of

PACKAGES_SHOWN = 40  # of the difference to the image it was made from
DECISIONS = {"approve": ImageState.APPROVED, "refuse": ImageState.REFUSED}


@dataclass(frozen=True, slots=True)
class ImageRow:
    name: str
    size: str
    when: str
    used: str
    mark: Mark
    owner: str = ""
    hue: str = ""
    made_from: str = ""
    session: str = ""
    decided_by: str = ""
    packages: tuple[str, ...] = ()
    more_packages: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class ImagesPage:
    answer: str
    next_step: str
    waiting: tuple[ImageRow, ...]
    rows: tuple[ImageRow, ...]


def add_images(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None) -> Response:
        offers = [] if house.gallery.shelf is None else await house.gallery.offers(acting(request))
        seen = images_page(house, offers)
        return show_admin(request, "images", trouble, refresh_s=LOOK_AGAIN_S, seen=seen)

    async def decide(admin: str, deed: str, fields: Fields) -> str:
        image = fields.get("image", "")
        if deed == "remove":
            await house.gallery.remove(Caller(house.registry.user(admin), "full"), image_name(image))
        elif deed in DECISIONS:
            await govern.decide_image(house, admin, image, DECISIONS[deed])
        else:
            raise no_such_deed(deed)
        return "/admin/images"

    add_page(router, context, "/admin/images", page, decide)


def images_page(house: House, offers: Sequence[Offer]) -> ImagesPage:
    rows = [image_row(house, offer) for offer in offers]
    waiting = tuple(row for row in rows if row.state == ImageState.WAITING)
    others = tuple(row for row in rows if row.state != ImageState.WAITING)
    return ImagesPage(*answer(house, len(waiting), len(rows)), waiting, others)


def answer(house: House, waiting: int, images: int) -> tuple[str, str]:
    if house.gallery.shelf is None:
        none = _("There are no images here: sessions run as processes of the machine.")
        return none, _("Start the server with --engine docker to have some.")
    if waiting:
        wait = ngettext("{count} image waits for your yes or no.", "{count} images wait for your yes or no.", waiting).format(count=waiting)
        return wait, _("Look at what was put into it; its maker may use it meanwhile, others only once you approve.")
    if not images:
        return _("No image is here yet."), _("The first session fetches what it asks for; or fetch one on the page of images.")
    there = ngettext("{count} image is here; none waits for you.", "{count} images are here; none waits for you.", images)
    return there.format(count=images), _("Who makes one from a session (fairy commit) asks for your approval here.")


def image_row(house: House, offer: Offer) -> ImageRow:
    now, image = house.clock(), offer.image
    when = "" if image.created_at is None else ago_words(image.created_at, now)
    used = _("never used") if offer.used_at is None else _("used {ago}").format(ago=ago_words(offer.used_at, now))
    row = ImageRow(image.name, show_size(image.size_bytes), when, used, Mark(_("From a registry"), "end"))
    return row if offer.made is None else made_row(row, offer.made)


def made_row(row: ImageRow, made: MadeImage) -> ImageRow:
    marks = {
        ImageState.WAITING: Mark(_("Waiting"), "wait"),
        ImageState.APPROVED: Mark(_("Approved"), "run"),
        ImageState.REFUSED: Mark(_("Refused"), "bad"),
    }
    return ImageRow(
        row.name, row.size, row.when, row.used, marks[made.state], made.owner, hue_of(made.owner), made.made_from, made.session_name,
        made.decided_by or "", made.packages[:PACKAGES_SHOWN], max(0, len(made.packages) - PACKAGES_SHOWN), made.state,
    )  # fmt: skip
