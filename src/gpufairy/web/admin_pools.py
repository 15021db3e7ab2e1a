"""Admin: pools of GPU nodes that come when they are asked for. What would be made is shown first, with what it costs."""
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import pool_deeds
from gpufairy.control.house import House
from gpufairy.control.pools import PoolPlan
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput, FairyError
from gpufairy.core.node import NodeState
from gpufairy.core.pool import Cloud, Machine, Pool, PoolState, pool_coming
from gpufairy.web.admin import Fields, add_page, said, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.forms import no_such_deed
from gpufairy.web.gauges import size_words
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark, time_words
from gpufairy.wire.pools import PoolBody
from gpufairy.wire.read import read

ASKED = ("name", "cloud", "cluster", "instance", "min", "max", "region", "node_role", "node_class")
PLAN = "plan"


@dataclass(frozen=True, slots=True)
class PoolRow:
    name: str
    mark: Mark
    trouble: str
    nodes: str
    machine: str
    comes_in: str
    costs: str
    costs_at_most: str


@dataclass(frozen=True, slots=True)
class StepRow:
    what: str
    name: str
    mark: Mark
    details: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PlanView:
    pool: str
    machine: str
    costs: str
    steps: tuple[StepRow, ...]
    fields: Mapping[str, str]  # with which it is made


def add_pools(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None) -> Response:
        asked = {name: value for name in ASKED if (value := request.query_params.get(name, "").strip()[:255])}
        plan = None
        if "name" in asked and trouble is None:
            try:
                plan = plan_view(await planned(house, asked), asked)
            except FairyError as error:
                trouble = Trouble(PLAN, error.detail, error.next_step, asked, context.status_and_title(error)[0])
        rows = [pool_row(house, pool) for pool in house.pools.all()]
        return show_admin(
            request, "pools", trouble, refresh_s=None if plan else LOOK_AGAIN_S, answer=answer(rows), rows=rows, plan=plan, wanted=asked,
            clouds=[(cloud.value, cloud_words(cloud)) for cloud in Cloud], possible=house.pools.clouds is not None,
        )  # fmt: skip

    async def change(admin: str, deed: str, fields: Fields) -> str:
        if deed == "add":
            await pool_deeds.add_pool(house, admin, body_of(fields))
        elif deed == "remove":
            await pool_deeds.remove_pool(house, admin, fields.get("name", ""))
        else:
            raise no_such_deed(deed)
        return "/admin/pools"

    add_page(router, context, "/admin/pools", page, change)


async def planned(house: House, asked: Fields) -> PoolPlan:
    return await house.pools.planned(body_of(asked).to_pool("", house.clock()))


def body_of(fields: Fields) -> PoolBody:
    words = {name: said(fields, name) for name in ASKED if name not in ("min", "max")}
    numbers = {name: whole_in(fields, name) for name in ("min", "max")}
    return read(PoolBody, {name: value for name, value in {**words, **numbers}.items() if value is not None}, "pool")


def whole_in(fields: Fields, name: str) -> int | None:
    text = said(fields, name)
    if text is not None and not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise BadInput(f"{name}: {shown(text, 40)} is no number of nodes", "Write a whole number, such as 4.")
    return None if text is None else int(text)


def answer(rows: list[PoolRow]) -> str:
    if not rows:
        return _("There is no pool yet.")
    return ngettext("{count} pool", "{count} pools", len(rows)).format(count=len(rows)) + "."


def pool_row(house: House, pool: Pool) -> PoolRow:
    there = [node for node in house.nodes if node.pool == pool.name]
    ready = sum(node.state is NodeState.READY for node in there)
    seats = {session.seat.node for session in house.book.holding() if session.seat is not None}
    coming = sum(pool_coming(node) == pool.name for node in seats)
    nodes = _("{ready} of {most}").format(ready=ready, most=pool.most)
    if coming:
        nodes += ", " + ngettext("{count} is coming", "{count} are coming", coming).format(count=coming)
    boot = time_words(timedelta(seconds=pool.boot_s))
    return PoolRow(
        pool.name, state_mark(pool), pool.trouble, nodes, machine_words(pool.machine),
        boot if pool.boots_s else _("{time}, as a guess").format(time=boot),
        cost_words(pool.machine, len(there)), cost_words(pool.machine, pool.most),
    )  # fmt: skip


def state_mark(pool: Pool) -> Mark:
    if pool.trouble and pool.state is PoolState.READY:
        return Mark(_("has trouble"), "bad")
    return {
        PoolState.READY: Mark(_("ready"), "run"), PoolState.MAKING: Mark(_("is being made"), "start"),
        PoolState.REMOVING: Mark(_("is being removed"), "end"),
    }[pool.state]  # fmt: skip


def machine_words(machine: Machine) -> str:
    return f"{machine.instance}: {machine.gpus} × {machine.gpu_kind}, {machine.cpus_milli / 1000:g} CPU, {size_words(machine.memory_bytes)}"


def cost_words(machine: Machine, nodes: int) -> str:
    if machine.price_micros is None:
        return _("price not known")
    return _("${amount} an hour").format(amount=f"{machine.price_micros * nodes / 1_000_000:,.2f}")


def plan_view(plan: PoolPlan, asked: Mapping[str, str]) -> PlanView:
    there, missing = Mark(_("is there"), "run"), Mark(_("would be made"), "wait")
    steps = tuple(StepRow(one.what, one.name, there if one.there else missing, tuple(one.details.items())) for one in plan.steps)
    machine = plan.pool.machine
    least, most = cost_words(machine, plan.pool.least), cost_words(machine, plan.pool.most)
    costs = least if machine.price_micros is None else _("{least} at rest, {most} at most").format(least=least, most=most)
    source = f" ({machine.price_of})" if machine.price_of else ""
    return PlanView(plan.pool.name, machine_words(machine), costs + source, steps, asked)


def cloud_words(cloud: Cloud) -> str:
    return {Cloud.EKS: "Amazon EKS", Cloud.GKE: "Google GKE", Cloud.KARPENTER: "Karpenter"}[cloud]
