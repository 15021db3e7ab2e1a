"""Admin: classes. A roster is looked at before it is applied; a class's own page has its students, their links, and what is done to all."""
import base64
from dataclasses import dataclass
from datetime import datetime, tzinfo
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import class_deeds
from gpufairy.control.class_deeds import Looked
from gpufairy.control.class_links import MadeLink, make_links
from gpufairy.control.house import House
from gpufairy.core.classes import Homes
from gpufairy.core.csv_text import csv_text
from gpufairy.core.errors import BadInput, FairyError
from gpufairy.web.admin import Fields, changed, said, show_admin
from gpufairy.web.asked import asked
from gpufairy.web.class_views import LinkRow, Preview, class_page, class_rows, classes_answer, links_of, preview_of
from gpufairy.web.context import PageContext
from gpufairy.web.forms import admin_of, fields_of, no_such_deed
from gpufairy.web.speech import _
from gpufairy.web.trouble import Trouble
from gpufairy.wire.classes import ClassBody, ClassChangeBody, ResetBody, RosterBody
from gpufairy.wire.read import read

KEPT = (
    "name", "start", "end", "due", "team", "preset", "gpus", "image", "quota_gpus", "quota_hours", "each_gpus", "each_sessions",
    "teachers", "homes", "take_users",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page of classes has beside the class: a roster that was looked at, or links just made."""

    preview: Preview | None = None
    links: tuple[LinkRow, ...] = ()
    typed: Fields | None = None  # what goes on to be applied


def add_classes(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None, shown: Shown = Shown()) -> Response:
        name = request.query_params.get("name", "")[:60] or (trouble.typed.get("of", "") if trouble is not None else "")
        if not name and shown.typed is not None:
            name = shown.typed.get("of", "")
        seen = await class_page(house, house.classes.named(name)) if name else None
        return show_admin(
            request, "classes", trouble, answer=classes_answer(house), rows=class_rows(house), seen=seen, shown=shown,
            presets=sorted(house.classes.presets), homes=homes_words(), people=[user.name for user in house.registry.users()],
        )  # fmt: skip

    @router.get("/admin/classes")
    async def classes(request: Request) -> Response:
        return await page(request, None)

    @router.post("/admin/classes/{deed}")
    async def change(request: Request, deed: str) -> Response:
        if deed in ("look", "look-again", "links", "links-csv"):
            return await looked_at(request, deed)
        return await changed(context, request, deed, lambda admin, fields: change_classes(house, admin, deed, fields), page)

    async def looked_at(request: Request, deed: str) -> Response:
        """What is shown in the answer, and nowhere else."""
        admin, fields = admin_of(request), await fields_of(request, context.url)
        try:
            if deed in ("look", "look-again"):
                shown = Shown(preview_of(looked(house, admin.name, deed, fields), applies=deed == "look"), typed=kept(fields))
                return await page(request, None, shown)
            made = await links_for(house, admin.name, fields)
        except FairyError as error:
            status, _title = context.status_and_title(error)
            return await page(request, Trouble(deed, error.detail, error.next_step, fields, status))
        if deed == "links-csv":
            return sheet(made, context.url, fields.get("of", ""))
        return await page(request, None, Shown(links=links_of(made, context.url), typed=fields))


def looked(house: House, admin: str, deed: str, fields: Fields) -> Looked:
    if deed == "look":
        return class_deeds.look_at_new(house, admin, body_of(fields), zone_here())
    data = base64.b64decode(roster_of(fields))
    return class_deeds.look(house, class_deeds.living(house, fields.get("of", "")), data, take_users="take_users" in fields)


async def links_for(house: House, admin: str, fields: Fields) -> list[MadeLink]:
    user = said(fields, "user")
    taught = house.classes.named(fields.get("of", ""))
    return await make_links(house, admin, taught, None if user is None else [user], all_of_them="all" in fields)


async def change_classes(house: House, admin: str, deed: str, fields: Fields) -> str:
    name = fields.get("of", "").strip()
    match deed:
        case "add":
            name = (await class_deeds.add_class(house, admin, body_of(fields), zone_here())).taught.name
        case "roster":
            missing = "disable" if "shut_out" in fields else "keep"
            body = RosterBody(roster=roster_of(fields), missing=missing, take_users="take_users" in fields)
            await class_deeds.apply_roster(house, admin, name, body)
        case "change":
            await class_deeds.change_class(house, admin, name, change_of(fields), zone_here())
        case "reset":
            aside = "aside" if "aside" in fields else "keep"
            await class_deeds.reset_class(house, admin, name, ResetBody(homes=aside, confirm=fields.get("confirm", "").strip()))
        case "archive":
            await class_deeds.archive_class(house, admin, name)
        case "remove":
            await class_deeds.remove_class(house, admin, name)
            return "/admin/classes"
        case _:
            raise no_such_deed(deed)
    return f"/admin/classes?name={quote(name)}"


def body_of(fields: Fields) -> ClassBody:
    quota = {"gpus": said(fields, "quota_gpus"), "gpu_hours": said(fields, "quota_hours")}
    each = {"gpus": said(fields, "each_gpus"), "sessions": said(fields, "each_sessions")}
    plain = {name: said(fields, name) for name in ("start", "due", "team", "preset", "gpus", "image")}
    sent = {
        **plain, "name": fields.get("name", "").strip(), "end": fields.get("end", "").strip(), "roster": roster_of(fields), "quota": quota,
        "each": each, "teachers": teachers_of(fields) or [], "homes": said(fields, "homes") or Homes.TAR.value,
        "take_users": "take_users" in fields,
    }  # fmt: skip
    return read(ClassBody, sent, "class")


def change_of(fields: Fields) -> ClassChangeBody:
    """The form shows all of it, so what is left empty is none; but a class has its dates."""
    dates = {"start": said(fields, "start"), "end": said(fields, "end"), "due": fields.get("due", "").strip()}
    plain = {name: fields.get(name, "").strip() for name in ("preset", "gpus", "image")}
    return read(ClassChangeBody, {**dates, **plain, "teachers": teachers_of(fields) or [], "homes": said(fields, "homes")}, "class")


def teachers_of(fields: Fields) -> list[str] | None:
    return [name for name in fields.get("teachers", "").replace(",", " ").split() if name]


def roster_of(fields: Fields) -> str:
    """The file as a script read it; else what was pasted."""
    if said(fields, "roster") is not None:
        return fields["roster"].strip()
    pasted = fields.get("pasted", "")
    if not pasted.strip():
        raise BadInput("roster: no file was chosen, and nothing pasted", "Choose the class list, a CSV file.")
    return base64.b64encode(pasted.encode()).decode()


def kept(fields: Fields) -> Fields:
    """As it was looked at: with the roster, so that what is applied is what was shown."""
    plain = {name: fields[name] for name in (*KEPT, "of") if name in fields}
    return {**plain, "roster": roster_of(fields)}


def sheet(made: list[MadeLink], url: str, name: str) -> Response:
    rows = [[row.user, row.name, row.email, row.url] for row in links_of(made, url)]
    text = csv_text(["login", "name", "email", "link"], rows, mark=True)
    headers = {"Content-Disposition": f'attachment; filename="{quote(name)}-links.csv"', "Cache-Control": "no-store"}
    return Response(text.encode(), headers=headers, media_type="text/csv; charset=utf-8")


def homes_words() -> list[tuple[str, str]]:
    return [
        (Homes.TAR.value, _("set aside, one file each")), (Homes.ASIDE.value, _("set aside as folders")),
        (Homes.KEEP.value, _("stay where they are")),
    ]  # fmt: skip


def zone_here() -> tzinfo:
    """Of whoever looks; where that is not known, the server's."""
    zone = asked().zone or datetime.now().astimezone().tzinfo
    assert zone is not None
    return zone

