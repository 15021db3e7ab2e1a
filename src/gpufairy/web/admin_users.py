"""Admin: users. Who may come in, as what, in which team; adding one."""
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import govern
from gpufairy.control.house import House
from gpufairy.core.people import Role, User
from gpufairy.web.admin import Fields, changed, said, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark, gpus_words, hue_of
from gpufairy.wire.people import UserBody
from gpufairy.wire.read import read

MOST_ROWS = 200  # on one page; of more the page says so, and a filter finds them


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    href: str
    hue: str
    role: str
    team: str
    share: str
    mark: Mark
    holds: str
    sessions: int
    ways: str  # by which they can sign in


@dataclass(frozen=True, slots=True)
class UsersPage:
    answer: str
    next_step: str
    rows: tuple[UserRow, ...]
    more: int
    teams: tuple[str, ...]
    query: str


def add_users(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None = None) -> Response:
        query = request.query_params.get("q", "")[:100]
        return show_admin(request, "users", trouble, seen=users_page(house, query))

    @router.get("/admin/users")
    async def users(request: Request) -> Response:
        return await page(request)

    @router.post("/admin/users")
    async def add_user(request: Request) -> Response:
        async def add(admin: str, fields: Fields) -> str:
            sent = {"name": fields.get("name", "").strip(), "role": fields.get("role", "user"), "team": said(fields, "team")}
            user = await govern.add_user(house, admin, read(UserBody, sent, "user"))
            return f"/admin/users/{quote(user.name)}"

        return await changed(context, request, "add", add, page)


def users_page(house: House, query: str) -> UsersPage:
    everybody = house.registry.users()
    found = [user for user in everybody if not query or query.lower() in user.name or query.lower() == (user.team or "").lower()]
    rows = tuple(user_row(house, user) for user in found[:MOST_ROWS])
    teams = tuple(team.name for team in house.teams.all())
    return UsersPage(answer(everybody), next_step(everybody), rows, len(found) - len(rows), teams, query)


def answer(users: Sequence[User]) -> str:
    admins, shut = sum(user.role is Role.ADMIN for user in users), sum(user.disabled for user in users)
    people = ngettext("{count} user", "{count} users", len(users)).format(count=len(users))
    told = [people, ngettext("{count} admin among them", "{count} admins among them", admins).format(count=admins)]
    if shut:
        told.append(_("{count} shut out").format(count=shut))
    return ", ".join(told) + "."


def next_step(users: Sequence[User]) -> str:
    if len(users) == 1:
        return _("You are alone here: add somebody below, then send them a sign-in link.")
    return _("Add one below; their page makes a sign-in link to send them.")


def user_row(house: House, user: User) -> UserRow:
    seats = [session.seat for session in house.book.holding() if session.owner == user.name and session.seat is not None]
    return UserRow(
        user.name, f"/admin/users/{quote(user.name)}", hue_of(user.name), role_words(user.role), user.team or "", f"{user.share:g}",
        user_mark(user), gpus_words(sum(seat.gpu_parts for seat in seats)) if seats else "–", len(seats), ways_words(house, user),
    )  # fmt: skip


def role_words(role: Role) -> str:
    return _("admin") if role is Role.ADMIN else _("user")


def user_mark(user: User) -> Mark:
    return Mark(_("Shut out"), "bad") if user.disabled else Mark(_("May come in"), "run")


def ways_words(house: House, user: User) -> str:
    tokens, keys = len(house.registry.tokens(user.name)), len(house.keyring.of(user.name))
    told = [
        ngettext("{count} token", "{count} tokens", tokens).format(count=tokens) if tokens else "",
        ngettext("{count} SSH key", "{count} SSH keys", keys).format(count=keys) if keys else "",
    ]
    return ", ".join(part for part in told if part) or _("no way in yet")
