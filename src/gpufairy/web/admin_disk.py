"""Admin: disk use. Who has how much, how it grows, what each place holds, and what could not be looked at; of all hosts or of one."""
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.disk_deeds import ask_for_walk
from gpufairy.control.house import House
from gpufairy.core.disk import DiskLook, DiskUser, Place, Unmeasured, folders_within
from gpufairy.core.disk_growth import Growth
from gpufairy.core.disk_limit import most_used
from gpufairy.web.admin import Fields, add_page, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.disk_page import ThingRow, growth_words, limit_words, rows, signed, unbroken
from gpufairy.web.forms import no_such_deed
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import ago_words, hue_of

FOLDERS_SHOWN = 15  # of a place
USERS_SHOWN = 500
MOST_REASONS = 5


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    hue: str
    size: str
    files: str
    week: str
    old: str
    limit: str
    over: bool


@dataclass(frozen=True, slots=True)
class PlaceCard:
    name: str
    path: str
    words: str
    folders: tuple[ThingRow, ...]
    notes: tuple[str, ...]
    troubles: tuple[str, ...]
    failed: Unmeasured | None


@dataclass(frozen=True, slots=True)
class HostRow:
    """A place on another host, in a line: its folders are shown when that host is chosen."""

    name: str
    node: str
    size: str
    files: str
    week: str
    looked: str
    old: bool
    failed: Unmeasured | None


@dataclass(frozen=True, slots=True)
class DiskAdmin:
    answer: str
    next_step: str
    users: tuple[UserRow, ...]
    more: int
    places: tuple[PlaceCard, ...]
    walking: str
    only_told: tuple[tuple[str, str], ...]  # why limits are not enforced, and what to do: sentences of core
    hosts: tuple[HostRow, ...]
    nodes: tuple[str, ...]  # to choose from
    node: str  # the chosen one; empty: all


def add_disk(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None) -> Response:
        seen = disk_admin(house, request.query_params.get("node", "")[:200])
        return show_admin(request, "disk", trouble, refresh_s=LOOK_AGAIN_S, seen=seen)

    async def change(admin: str, deed: str, _fields: Fields) -> str:
        if deed != "walk":
            raise no_such_deed(deed)
        await ask_for_walk(house, admin)
        return "/admin/disk"

    add_page(router, context, "/admin/disk", page, change)


def disk_admin(house: House, node: str) -> DiskAdmin:
    disk = house.disk
    all_places = disk.all_places()
    nodes = tuple(dict.fromkeys(place.node for place in all_places if place.node))
    node = node if node in nodes else ""
    places = [place for place in all_places if not node or place.node == node]
    people = sorted((disk.users_on(places) if node else disk.users()).values(), key=lambda one: (-one.bytes, one.user))
    looks, failed = {look.place.name: look for look in disk.looks()}, {one.place.name: one for one in disk.unmeasured()}
    cards = tuple(place_card(house, one, looks.get(one.name), failed.get(one.name)) for one in places if node or not one.node)
    hosts = tuple(host_row(house, one, looks.get(one.name), failed.get(one.name)) for one in places if one.node and not node)
    shown = [look for one in places if (look := looks.get(one.name)) is not None]
    return DiskAdmin(
        answer(places, shown, people), next_step(house), tuple(user_row(house, one) for one in people[:USERS_SHOWN]),
        max(0, len(people) - USERS_SHOWN), cards, "" if disk.walking is None else disk.walking.name, only_told(house),
        hosts, nodes, node,
    )  # fmt: skip


def answer(places: Sequence[Place], looks: list[DiskLook], people: list[DiskUser]) -> str:
    if not places:
        return _("What lies on disk is not known here.")
    if not looks:
        return _("Nobody has looked at the disk yet.")
    amount, count = unbroken(sum(look.bytes for look in looks)), len(people)
    return ngettext("{size} on disk, of {count} user.", "{size} on disk, of {count} users.", count).format(size=amount, count=count)


def next_step(house: House) -> str:
    if not house.disk.all_places():
        return house.disk.why_none
    if house.disk.pace.every is None:
        return _("Nothing is walked through by itself: disk.every is off.")
    return _("Folders that changed are looked at every hour or as set, all of them once a night. Nothing is ever removed by this.")


def only_told(house: House) -> tuple[tuple[str, str], ...]:
    """Each reason once: homes mostly lie on one disk."""
    limits = [house.disk.limit(user.name) for user in house.registry.users()]
    reasons = dict.fromkeys((one.why_not, one.next_step) for one in limits if one.limit_bytes is not None and one.why_not)
    return tuple(reasons)[:MOST_REASONS]


def user_row(house: House, one: DiskUser) -> UserRow:
    limit, week = house.disk.limit(one.user), house.disk.growth_of(one).week_bytes
    return UserRow(
        one.user, hue_of(one.user), unbroken(one.bytes), f"{one.inodes:,}",
        "" if week is None else signed(week), unbroken(one.old_bytes), limit_words(limit),
        limit.limit_bytes is not None and most_used(one)[1] > limit.limit_bytes,
    )  # fmt: skip


def place_card(house: House, place: Place, look: DiskLook | None, failed: Unmeasured | None) -> PlaceCard:
    if look is None:
        return PlaceCard(place.name, place.path, _("not looked at yet"), (), (), (), failed)
    folders = rows(folders_within(look)[:FOLDERS_SHOWN])
    old = [_("It was looked at so long ago that it may have changed.")] if house.disk.is_old(look) else []
    return PlaceCard(place.name, place.path, place_words(house, look), folders, (*old, *notes(look)), look.troubles, failed)


def host_row(house: House, place: Place, look: DiskLook | None, failed: Unmeasured | None) -> HostRow:
    if look is None:
        return HostRow(place.name, place.node, "", "", "", _("not looked at yet"), False, failed)
    week = house.disk.growth_of_place(look).week_bytes
    return HostRow(
        place.name, place.node, unbroken(look.bytes), f"{look.inodes:,}", "" if week is None else signed(week),
        ago_words(look.at, house.clock()), house.disk.is_old(look), failed,
    )  # fmt: skip


def place_words(house: House, look: DiskLook) -> str:
    grown: Growth = house.disk.growth_of_place(look)
    files = ngettext("{count} file", "{count} files", look.inodes).format(count=f"{look.inodes:,}")
    parts = [unbroken(look.bytes), files, growth_words(grown), _("looked at {ago}").format(ago=ago_words(look.at, house.clock()))]
    return " · ".join(part for part in parts if part)


def notes(look: DiskLook) -> list[str]:
    said = []
    if look.unread:
        words = ngettext(
            "{count} folder could not be read: what is in it is not known.",
            "{count} folders could not be read: what is in them is not known.", look.unread,
        )  # fmt: skip
        said.append(words.format(count=look.unread))
    if look.mounts:
        words = ngettext("{count} other disk in it is not counted.", "{count} other disks in it are not counted.", look.mounts)
        said.append(words.format(count=look.mounts))
    if look.too_deep:
        said.append(_("Folders more than a thousand deep are not looked into."))
    if look.named is not None:
        said.append(_("Not all large files and folders are named: the report would have been too large."))
    if look.left_out:
        words = ngettext("{count} small owner is left out.", "{count} small owners are left out.", look.left_out)
        said.append(words.format(count=look.left_out))
    return said
