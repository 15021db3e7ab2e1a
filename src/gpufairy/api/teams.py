"""Routes of teams and quotas: what part of the GPUs each team is entitled to, and what users and teams may hold at most."""
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.people import meant
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment, number
from gpufairy.control import govern
from gpufairy.control.house import House
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.quota import Allowances
from gpufairy.core.quota_rules import ANY_KIND, EACH_TEAM, EACH_USER, Quota, Rule, Used, rules_for
from gpufairy.core.share import PARTS
from gpufairy.core.team import Team
from gpufairy.wire.read import read
from gpufairy.wire.teams import QuotaBody, TeamBody, TeamChangeBody


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["people"])
    add_team_routes(router, context.house)
    add_quota_routes(router, context.house)
    return router


def add_team_routes(router: APIRouter, house: House) -> None:
    @router.get("/teams")
    async def teams(request: Request) -> dict[str, Any]:
        """Your team; admins see all."""
        caller = caller_of(request)
        seen = [team for team in house.teams.all() if caller.is_admin or team.name == caller.user.team]
        return {"items": [team_shape(house, team) for team in seen], "next": None}

    @router.post("/teams", status_code=201)
    async def add_team(request: Request) -> JSONResponse:
        """Make a team, with a share of the GPUs: one with 2 is entitled to twice as much as one with 1."""
        body = read(TeamBody, await json_body(request), "team")
        return JSONResponse(team_shape(house, await govern.add_team(house, caller_of(request).user.name, body.name, body.share)), 201)

    @router.get("/teams/{name}")
    async def team(request: Request, name: str) -> dict[str, Any]:
        """One team: its share, who is in it, what they hold now."""
        caller = caller_of(request)
        if not caller.is_admin and name != caller.user.team:
            raise NoSuchThing(f"no team {name[:60]!r} that you are in", f"Your team is {caller.user.team or 'none'}.")
        return team_shape(house, house.teams.team(name))

    @router.patch("/teams/{name}")
    async def change_team(request: Request, name: str) -> dict[str, Any]:
        """Give a team another share."""
        body = read(TeamChangeBody, await json_body(request), "team")
        return team_shape(house, await govern.change_team(house, caller_of(request).user.name, name, body.share))

    @router.delete("/teams/{name}", status_code=204)
    async def remove_team(request: Request, name: str) -> Response:
        """Only one that nobody is in. Its quotas go with it."""
        await govern.remove_team(house, caller_of(request).user.name, name)
        return Response(status_code=204)


def add_quota_routes(router: APIRouter, house: House) -> None:
    @router.get("/quotas")
    async def quotas(request: Request, user: str | None = None) -> dict[str, Any]:
        """Those that count for you, with what is used of each; admins see all, or with `user` those of somebody."""
        caller = caller_of(request)
        if caller.is_admin and user is None:
            return {"items": quotas_shape(house, [rule_of(quota) for quota in house.quotas.all()]), "next": None}
        of = house.registry.user(meant(caller, user))
        return {"items": quotas_shape(house, rules_for(house.quotas.all(), of.name, of.team)), "next": None}

    @router.put("/quotas")
    async def set_quota(request: Request) -> dict[str, Any]:
        """Say what `user:NAME`, `team:NAME` or each (`user:*`, `team:*`) may hold at most. What is left out stays as it was."""
        body = read(QuotaBody, await json_body(request), "quota")
        quota = await govern.set_quota(house, caller_of(request).user.name, body)
        return quotas_shape(house, [rule_of(quota)])[0]

    @router.delete("/quotas", status_code=204)
    async def unset_quota(request: Request, of: str, gpu_kind: str = ANY_KIND) -> Response:
        """Take a quota away: the one for each counts again, if there is one."""
        await govern.unset_quota(house, caller_of(request).user.name, of, gpu_kind)
        return Response(status_code=204)


def rule_of(quota: Quota) -> Rule:
    return Rule(quota.of, quota)


def team_shape(house: House, team: Team) -> dict[str, Any]:
    seats = [session.seat for session in house.book.holding() if session.team == team.name and session.seat is not None]
    return {
        "name": team.name, "share": number(team.share), "users": [user.name for user in house.teams.members(team.name)],
        "gpus_held": number(sum(seat.gpu_parts for seat in seats) / PARTS), "sessions": len(seats), "created_at": moment(team.created_at),
    }  # fmt: skip


def quotas_shape(house: House, rules: Iterable[Rule]) -> list[dict[str, Any]]:
    allowances = house.quotas.allowances(house.book.holding(), house.nodes)
    return [quota_shape(rule, allowances, house.quotas.notes(rule.quota)) for rule in rules]


def quota_shape(rule: Rule, allowances: Allowances, notes: list[str]) -> dict[str, Any]:
    """`used` of one that is for each: none, since each has their own."""
    quota = rule.quota
    return {
        "of": quota.of, "who": rule.who, "gpu_kind": quota.gpu_kind,
        "gpus": None if quota.gpu_parts is None else number(quota.gpu_parts / PARTS),
        "gpu_hours": None if quota.gpu_hours_week is None else number(quota.gpu_hours_week), "sessions": quota.sessions,
        "disk_bytes": quota.disk_bytes,
        "used": None if rule.who in (EACH_USER, EACH_TEAM) else used_shape(allowances.used(rule)), "notes": notes,
    }  # fmt: skip


def used_shape(used: Used) -> dict[str, Any]:
    return {"gpus": number(used.gpu_parts / PARTS), "gpu_hours": round(used.gpu_seconds / 3600, 3), "sessions": used.sessions}
