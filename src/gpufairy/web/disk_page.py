"""Disk use of one user: a block on the first page, and a page of its own. It tells what could be removed, and removes nothing."""
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.disk_deeds import made_images_bytes
from gpufairy.control.house import House
from gpufairy.core.amounts import show_size
from gpufairy.core.disk import DiskUser, Thing, is_home, used_at
from gpufairy.core.disk_advice import CleanUp, clean_up, freed_bytes
from gpufairy.core.disk_growth import Growth
from gpufairy.core.disk_limit import DiskLimit, most_used, near_words
from gpufairy.core.errors import NotAllowed
from gpufairy.core.people import Role
from gpufairy.web.context import PageContext
from gpufairy.web.forms import caller_of
from gpufairy.web.pages import show
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import here
from gpufairy.web.words import UNBROKEN, ago_words

FOLDERS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class DiskBlock:
    """On the first page."""

    size: str
    growth: str  # empty: not known yet
    largest: str  # a folder, with its size
    warning: str  # near or over a limit: a sentence of core
    freed: str  # how much could be freed; empty: nothing to speak of


@dataclass(frozen=True, slots=True)
class ThingRow:
    path: str
    size: str
    bar: float  # hundredths of the largest
    files: str
    used: str


@dataclass(frozen=True, slots=True)
class DiskPage:
    user: str
    answer: str
    next_step: str
    limit: DiskLimit
    limit_words: str
    near: str  # a sentence of core: near the limit, or over it
    on_several: bool  # machines
    places: tuple[tuple[str, str, str], ...]  # name, size, and when it was looked at if that is long ago
    folders: tuple[ThingRow, ...]
    largest: tuple[ThingRow, ...]
    oldest: tuple[ThingRow, ...]
    advice: tuple[CleanUp, ...]
    images: str


def add_disk_page(router: APIRouter, context: PageContext) -> None:
    @router.get("/disk")
    async def disk(request: Request) -> Response:
        """One's own; admins see anybody's."""
        reader, wanted = caller_of(request).user, request.query_params.get("user")
        if wanted not in (None, reader.name) and reader.role is not Role.ADMIN:
            raise NotAllowed("what others have on disk is shown to admins alone", "Leave the name out.")
        of = reader.name if wanted is None else context.house.registry.user(wanted).name
        page = disk_page(context.house, of, own=of == reader.name)
        return show("disk.html", user=reader.name, is_admin=reader.role is Role.ADMIN, page=page)


def disk_block(house: House, user: str) -> DiskBlock | None:
    """None: nothing is known of theirs."""
    found = house.disk.user(user)
    if found is None:
        return None
    top = next((one for one in found.folders if not is_home(one.path)), None)  # the home itself is no news
    freed, (node, most) = freed_bytes(clean_up(found)), most_used(found)
    return DiskBlock(
        unbroken(found.bytes), growth_words(house.disk.growth_of(found)),
        "" if top is None else f"{top.path}, {unbroken(top.bytes)}",
        near_words(most, house.disk.limit(user), node), unbroken(freed) if freed else "",
    )  # fmt: skip


def growth_words(grown: Growth) -> str:
    if grown.week_bytes is not None:
        return _("{amount} in 7 days").format(amount=signed(grown.week_bytes))
    return "" if grown.day_bytes is None else _("{amount} in a day").format(amount=signed(grown.day_bytes))


def signed(amount: int) -> str:
    return f"{'−' if amount < 0 else '+'}{unbroken(abs(amount))}"


def unbroken(amount: int) -> str:
    return show_size(amount).replace(" ", UNBROKEN)


def disk_page(house: House, user: str, *, own: bool) -> DiskPage:
    found, limit = house.disk.user(user, by_admin=not own), house.disk.limit(user)
    images = made_images_bytes(house, user)
    if found is None:
        return DiskPage(user, nothing_words(house, user, own), "", limit, limit_words(limit), "", False, (), (), (), (), (), "")
    advice, (node, most) = clean_up(found), most_used(found)
    old = {look.place.name: look.at for look in house.disk.looks() if house.disk.is_old(look)}
    places = tuple((place, unbroken(size), old_words(old.get(place), house.clock())) for place, size in found.places)
    folders, largest, oldest = rows(found.folders[:FOLDERS_SHOWN]), rows(found.largest), rows(found.oldest)
    return DiskPage(
        user, answer(house, found, own), next_step(house, advice), limit, limit_words(limit), near_words(most, limit, node),
        len(found.by_node) > 1, places, folders, largest, oldest, advice, unbroken(images) if images else "",
    )  # fmt: skip


def old_words(at: datetime | None, now: datetime) -> str:
    return "" if at is None else _("looked at {ago}: it may have changed").format(ago=ago_words(at, now))


def nothing_words(house: House, user: str, own: bool) -> str:
    if not house.disk.looks():
        return _("Nobody has looked at the disk yet.") if house.disk.all_places() else _("What lies on disk is not known here.")
    return _("You have nothing on disk.") if own else _("{user} has nothing on disk.").format(user=user)


def answer(house: House, found: DiskUser, own: bool) -> str:
    files = ngettext("{count} file", "{count} files", found.inodes).format(count=f"{found.inodes:,}").replace(" ", UNBROKEN)
    amount = _("{size} on disk in {files}").format(size=unbroken(found.bytes), files=files)
    grown = growth_words(house.disk.growth_of(found))
    told = f"{amount}, {grown}" if grown else amount
    return _("You have {amount}.").format(amount=told) if own else _("{user} has {amount}.").format(user=found.user, amount=told)


def next_step(house: House, advice: Iterable[CleanUp]) -> str:
    seen = _("Looked at {ago}.").format(ago=ago_words(house.disk.as_of() or house.clock(), house.clock()))
    freed = freed_bytes(advice)
    if not freed:
        return seen
    return " ".join((_("About {size} could be removed without much regret; see below.").format(size=unbroken(freed)), seen))


def limit_words(limit: DiskLimit) -> str:
    if limit.limit_bytes is None:
        return ""
    size = unbroken(limit.limit_bytes)
    return _("{size}, enforced").format(size=size) if limit.enforced else _("{size}, only told").format(size=size)


def rows(things: Iterable[Thing]) -> tuple[ThingRow, ...]:
    found = list(things)
    most = max((one.bytes for one in found), default=0) or 1
    return tuple(ThingRow(one.path, unbroken(one.bytes), 100 * one.bytes / most, f"{one.inodes:,}", used_words(one)) for one in found)


def used_words(thing: Thing) -> str:
    at = used_at(thing)
    return "" if at is None else f"{here(at):%Y-%m-%d}"
