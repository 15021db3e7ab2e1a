"""Admin: one user. Role, team and share, how they sign in, what they hold; links and tokens made here are shown once."""
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import govern
from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.amounts import parse_duration
from gpufairy.core.errors import BadInput, FairyError
from gpufairy.core.people import User
from gpufairy.core.team import TWICE_AS_MUCH
from gpufairy.web.account import KeyRow, TokenRow, key_rows, token_rows
from gpufairy.web.admin import Fields, changed, number_in, said, show_admin
from gpufairy.web.admin_users import role_words, user_mark, ways_words
from gpufairy.web.context import PageContext
from gpufairy.web.forms import admin_of, fields_of, no_such_deed
from gpufairy.web.speech import _
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark, clock_words, gpus_words, hue_of
from gpufairy.wire.people import UserChangeBody, read_scope
from gpufairy.wire.read import read


@dataclass(frozen=True, slots=True)
class UserPage:
    name: str
    href: str
    hue: str
    mark: Mark
    answer: str
    next_step: str
    role: str
    team: str
    share: str
    disabled: bool
    since: str
    tokens: tuple[TokenRow, ...]
    keys: tuple[KeyRow, ...]
    teams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A secret just made: in this answer, and nowhere else."""

    what: str
    text: str
    until: str


def add_user_page(router: APIRouter, context: PageContext) -> None:
    house = context.house

    def page(request: Request, name: str, trouble: Trouble | None = None, made: Made | None = None) -> Response:
        seen = user_page(house, house.registry.user(name))
        return show_admin(request, "users", trouble, template="admin_user.html", seen=seen, made=made)

    @router.get("/admin/users/{name}")
    async def one_user(request: Request, name: str) -> Response:
        return page(request, name)

    @router.post("/admin/users/{name}/{deed}")
    async def change(request: Request, name: str, deed: str) -> Response:
        async def again(request: Request, trouble: Trouble | None) -> Response:
            return page(request, name, trouble)

        async def do(admin: str, fields: Fields) -> str:
            await change_one(house, admin, name, deed, fields)
            return f"/admin/users/{quote(name)}"

        if deed in ("link", "token"):
            return await make(request, name, deed)
        return await changed(context, request, deed, do, again)

    async def make(request: Request, name: str, deed: str) -> Response:
        admin, fields = admin_of(request), await fields_of(request, context.url)
        try:
            made = await link_made(context, admin.name, name) if deed == "link" else await token_made(house, admin.name, name, fields)
        except FairyError as error:
            status, _title = context.status_and_title(error)
            return page(request, name, Trouble(deed, error.detail, error.next_step, fields, status))
        return page(request, name, made=made)


async def change_one(house: House, admin: str, name: str, deed: str, fields: Fields) -> None:
    match deed:
        case "change":
            await govern.change_user(house, admin, name, change_of(fields))
        case "shut-out" | "let-in":
            await govern.change_user(house, admin, name, UserChangeBody(disabled=deed == "shut-out"))
        case "revoke":
            await govern.revoke_token(house, admin, own_token(house, name, fields.get("token", "")))
        case "add-key":
            await govern.add_key(house, admin, name, fields.get("key", ""))
        case "remove-key":
            await govern.remove_key(house, admin, name, fields.get("key", ""))
        case _:
            raise no_such_deed(deed)


def change_of(fields: Fields) -> UserChangeBody:
    share = number_in(fields, "share", TWICE_AS_MUCH)
    return read(UserChangeBody, {"role": said(fields, "role"), "team": fields.get("team", "").strip(), "share": share}, "user")


def own_token(house: House, name: str, token_id: str) -> str:
    """Of that user: a form for one must not end another's."""
    return next((token.id for token in house.registry.tokens(name) if token.id == token_id), "")


async def link_made(context: PageContext, admin: str, name: str) -> Made:
    user = context.house.registry.user(name)
    if user.disabled:
        raise BadInput(f"{name} is shut out, and a link would not let them in", "Let them in first.")
    url = f"{context.url}/signin?code={context.links.make(name)}"
    await note(context.house, admin, f"user:{name}", "link_made", "a sign-in link, good once within an hour")
    return Made(_("A sign-in link for {name}").format(name=name), url, _("It works once, within an hour. It is shown here only now."))


async def token_made(house: House, admin: str, name: str, fields: Fields) -> Made:
    lasts = said(fields, "expires")
    expires = None if lasts is None else parse_duration(lasts, "expires")
    named, scope = said(fields, "label") or "command line", read_scope(fields.get("scope", "full"))
    _token, text = await govern.create_token(house, admin, name, named=named, scope=scope, expires=expires)
    return Made(_("A token for {name}").format(name=name), text, _("It is shown here only now: what is kept of it cannot be read back."))


def user_page(house: House, user: User) -> UserPage:
    now = house.clock()
    seats = [session.seat for session in house.book.holding() if session.owner == user.name and session.seat is not None]
    held = gpus_words(sum(seat.gpu_parts for seat in seats))
    team = _("no team") if user.team is None else _("team {name}").format(name=user.team)
    held_words = _("holds {gpus}").format(gpus=held) if seats else _("holds nothing")
    answer = f"{user.name}: {role_words(user.role)}, {team}, {held_words}."
    has_way = bool(house.registry.tokens(user.name) or house.keyring.of(user.name))
    next_step = _("Make a sign-in link and send it to them.")
    if has_way:
        next_step = _("They can sign in: {ways}.").format(ways=ways_words(house, user))
    return UserPage(
        user.name, f"/admin/users/{quote(user.name)}", hue_of(user.name), user_mark(user), answer, next_step, user.role, user.team or "",
        f"{user.share:g}", user.disabled, clock_words(user.created_at, now), token_rows(house, user.name), key_rows(house, user.name),
        tuple(team.name for team in house.teams.all()),
    )  # fmt: skip
