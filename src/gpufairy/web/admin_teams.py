"""Admin: teams with their shares of the GPUs, and quotas with what is used of them."""
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import govern
from gpufairy.control.house import House
from gpufairy.core.amounts import show_size
from gpufairy.core.quota import Allowances
from gpufairy.core.quota_rules import ANY_KIND, EACH_TEAM, EACH_USER, Quota, Rule
from gpufairy.core.share import PARTS
from gpufairy.core.team import TWICE_AS_MUCH, Team
from gpufairy.web.admin import Fields, add_page, number_in, said, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.forms import no_such_deed
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import gpus_words
from gpufairy.wire.read import read
from gpufairy.wire.teams import NONE, QuotaBody


@dataclass(frozen=True, slots=True)
class TeamRow:
    name: str
    share: str
    part: str  # of all teams together, as it is entitled to
    users: tuple[str, ...]
    more_users: int
    holds: str
    removable: bool


@dataclass(frozen=True, slots=True)
class BoundRow:
    """One bound of a quota; `part` is what of it is used, in hundredths."""

    said: str
    part: float | None  # None: each has their own, or there is nothing to divide by


@dataclass(frozen=True, slots=True)
class QuotaRow:
    of: str
    who: str
    kind: str
    gpus: str  # as a form takes them
    hours: str
    sessions: str
    bounds: tuple[BoundRow, ...]
    notes: tuple[str, ...]
    disk: str = ""  # as a form takes it


USERS_SHOWN = 8  # of a team


def add_teams(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None) -> Response:
        teams = house.teams.all()
        rows = [team_row(house, team, sum(one.share for one in teams)) for team in teams]
        answer = ngettext("{count} team", "{count} teams", len(rows)).format(count=len(rows)) + "."
        return show_admin(request, "teams", trouble, answer=answer if rows else _("There is no team yet."), rows=rows)

    async def change(admin: str, deed: str, fields: Fields) -> str:
        await change_teams(house, admin, deed, fields)
        return "/admin/teams"

    add_page(router, context, "/admin/teams", page, change)


async def change_teams(house: House, admin: str, deed: str, fields: Fields) -> None:
    name = fields.get("name", "").strip()
    match deed:
        case "add":
            await govern.add_team(house, admin, name, share_of(fields))
        case "share":
            await govern.change_team(house, admin, name, share_of(fields))
        case "remove":
            await govern.remove_team(house, admin, name)
        case _:
            raise no_such_deed(deed)


def share_of(fields: Fields) -> float:
    share = number_in(fields, "share", TWICE_AS_MUCH)
    return 1.0 if share is None else share


def team_row(house: House, team: Team, all_shares: float) -> TeamRow:
    members = [user.name for user in house.teams.members(team.name)]
    seats = [session.seat for session in house.book.holding() if session.team == team.name and session.seat is not None]
    return TeamRow(
        team.name, f"{team.share:g}", f"{100 * team.share / all_shares:.0f}", tuple(members[:USERS_SHOWN]),
        max(0, len(members) - USERS_SHOWN), gpus_words(sum(seat.gpu_parts for seat in seats)), not members,
    )  # fmt: skip


def add_quotas(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None) -> Response:
        rows = quota_rows(house)
        asked = request.query_params
        chosen = next((row for row in rows if (row.of, row.kind) == (asked.get("of"), asked.get("kind"))), None)
        return show_admin(
            request, "quotas", trouble, answer=quotas_answer(rows), rows=rows, chosen=chosen, of=asked.get("of", "")[:255],
            whos=whos(house), kinds=[ANY_KIND, *kinds(house)],
        )  # fmt: skip

    async def change(admin: str, deed: str, fields: Fields) -> str:
        if deed == "remove":
            await govern.unset_quota(house, admin, fields.get("of", ""), fields.get("kind", ANY_KIND))
        elif deed == "set":
            await govern.set_quota(house, admin, quota_of(fields))
        else:
            raise no_such_deed(deed)
        return "/admin/quotas"

    add_page(router, context, "/admin/quotas", page, change)


def quota_of(fields: Fields) -> QuotaBody:
    """The form shows every bound, so one that is left empty is none."""
    bounds = {name: said(fields, name) or NONE for name in ("gpus", "gpu_hours", "sessions", "disk")}
    return read(QuotaBody, {"of": fields.get("of", "").strip(), "gpu_kind": said(fields, "kind") or ANY_KIND, **bounds}, "quota")


def quotas_answer(rows: Sequence[QuotaRow]) -> str:
    if not rows:
        return _("There is no quota: everybody may hold what is free, in turn.")
    return ngettext("{count} quota is in force.", "{count} quotas are in force.", len(rows)).format(count=len(rows))


def whos(house: House) -> list[str]:
    users, teams = house.registry.users(), house.teams.all()
    return [EACH_USER, EACH_TEAM, *(f"team:{team.name}" for team in teams), *(f"user:{user.name}" for user in users)]


def kinds(house: House) -> list[str]:
    return sorted({gpu.kind for node in house.nodes for gpu in node.gpus})


def quota_rows(house: House) -> list[QuotaRow]:
    allowances = house.quotas.allowances(house.book.holding(), house.nodes)
    return [quota_row(quota, allowances, house.quotas.notes(quota)) for quota in house.quotas.all()]


def quota_row(quota: Quota, allowances: Allowances, notes: Sequence[str]) -> QuotaRow:
    each = quota.of in (EACH_USER, EACH_TEAM)
    used = None if each else allowances.used(Rule(quota.of, quota))
    gpus = None if quota.gpu_parts is None else quota.gpu_parts / PARTS
    bounds = (
        bound(gpus, None if used is None else used.gpu_parts / PARTS, _("GPUs at once")),
        bound(quota.gpu_hours_week, None if used is None else used.gpu_seconds / 3600, _("GPU-hours in 7 days")),
        bound(quota.sessions, None if used is None else used.sessions, _("sessions at once")),
        None if quota.disk_bytes is None else BoundRow(_("{size} on disk").format(size=show_size(quota.disk_bytes)), None),
    )
    return QuotaRow(
        quota.of, who_words(quota.of), quota.gpu_kind, typed(gpus), typed(quota.gpu_hours_week), typed(quota.sessions),
        tuple(one for one in bounds if one is not None), tuple(notes),
        "" if quota.disk_bytes is None else show_size(quota.disk_bytes).replace(" ", ""),
    )  # fmt: skip


def bound(limit: float | None, used: float | None, thing: str) -> BoundRow | None:
    if limit is None:
        return None
    if used is None:
        return BoundRow(f"{limit:g} {thing}", None)
    words = _("{used} of {limit} {thing}").format(used=f"{used:.2f}".rstrip("0").rstrip("."), limit=f"{limit:g}", thing=thing)
    return BoundRow(words, min(100.0, 100 * used / limit) if limit else 100.0)


def typed(amount: float | None) -> str:
    return "" if amount is None else f"{amount:g}"


def who_words(of: str) -> str:
    if of == EACH_USER:
        return _("each user")
    if of == EACH_TEAM:
        return _("each team")
    sort, _colon, name = of.partition(":")
    return _("team {name}").format(name=name) if sort == "team" else name
