"""Admin pages: what they share. For admins alone, a list of all at the side, and a form that was refused comes back with the reason."""
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput, FairyError
from gpufairy.web.context import PageContext
from gpufairy.web.forms import admin_of, fields_of
from gpufairy.web.pages import ANYTHING, show
from gpufairy.web.sign_in import to_page
from gpufairy.web.speech import _
from gpufairy.web.trouble import Trouble


@dataclass(frozen=True, slots=True)
class Section:
    key: str  # of its template: admin_KEY.html
    href: str
    title: str


Fields = Mapping[str, str]
Deed = Callable[[str, Fields], Awaitable[str]]  # as whom, with what: to which page afterwards
Deeds = Callable[[str, str, Fields], Awaitable[str]]  # as whom, which, with what: to which page afterwards
Page = Callable[[Request, Trouble | None], Awaitable[Response]]


def sections() -> list[Section]:
    """In the order in which they stand at the side."""
    return [
        Section("home", "/admin", _("Overview")),
        Section("users", "/admin/users", _("Users")),
        Section("teams", "/admin/teams", _("Teams")),
        Section("quotas", "/admin/quotas", _("Quotas")),
        Section("classes", "/admin/classes", _("Classes")),
        Section("accounting", "/admin/accounting", _("Accounting")),
        Section("disk", "/admin/disk", _("Disk")),
        Section("images", "/admin/images", _("Images")),
        Section("nodes", "/admin/nodes", _("Nodes")),
        Section("pools", "/admin/pools", _("Pools")),
        Section("shares", "/admin/shares", _("Shares")),
        Section("mig", "/admin/mig", _("MIG")),
        Section("alerts", "/admin/alerts", _("Alerts")),
        Section("doctor", "/admin/doctor", _("Doctor")),
        Section("events", "/admin/events", _("Events")),
        Section("audit", "/admin/audit", _("Audit")),
        Section("settings", "/admin/settings", _("Settings")),
    ]


def show_admin(
    request: Request, section: str, trouble: Trouble | None = None, *, template: str = "", refresh_s: int | None = None, **values: object
) -> Response:
    """With trouble it does not look again: what was typed stays, and the address is that of the form."""
    user = admin_of(request)
    return show(
        template or f"admin_{section}.html", 200 if trouble is None else trouble.status, user=user.name, is_admin=True,
        refresh_s=None if trouble else refresh_s, follows=ANYTHING, sections=sections(), section=section, trouble=trouble, **values,
    )  # fmt: skip


def add_page(router: APIRouter, context: PageContext, path: str, page: Page, deeds: Deeds) -> None:
    """A page at that address, and what its forms ask for below it, by name."""

    @router.get(path)
    async def look(request: Request) -> Response:
        return await page(request, None)

    @router.post(path + "/{deed}")
    async def change(request: Request, deed: str) -> Response:
        return await changed(context, request, deed, lambda admin, fields: deeds(admin, deed, fields), page)


async def changed(context: PageContext, request: Request, form: str, deed: Deed, page: Page) -> Response:
    """Does what a form asks for and goes on to a page; or shows its page again, with the reason beside the form."""
    admin = admin_of(request)
    fields = await fields_of(request, context.url)
    try:
        to = await deed(admin.name, fields)
    except FairyError as error:
        status, _title = context.status_and_title(error)
        return await page(request, Trouble(form, error.detail, error.next_step, fields, status))
    return to_page(to)


def said(fields: Fields, name: str) -> str | None:
    """What was typed there; None: nothing."""
    return fields.get(name, "").strip() or None


def number_in(fields: Fields, name: str, next_step: str) -> float | None:
    """None: nothing was typed there."""
    text = said(fields, name)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise BadInput(f"{name}: {shown(text or '', 40)} is no number", next_step) from None
