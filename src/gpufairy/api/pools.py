"""Routes of pools: nodes that come when they are asked for, and go when nobody uses them."""
from typing import Any

from fastapi import APIRouter, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control import pool_deeds
from gpufairy.control.house import House
from gpufairy.control.pools import PoolPlan
from gpufairy.core.node import NodeState
from gpufairy.core.pool import Pool, Step, price_words
from gpufairy.wire.pools import PoolBody
from gpufairy.wire.read import read


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["cluster"]), context.house

    @router.get("/pools")
    async def pools() -> dict[str, Any]:
        """Every pool: what its nodes are, how many there are and may be, how long one takes to come, and what an hour costs."""
        return {"items": [pool_shape(house, pool) for pool in house.pools.all()], "next": None}

    @router.post("/pools", status_code=200)
    async def add(request: Request) -> dict[str, Any]:
        """Make a pool, or give it other bounds. With `dry_run`: only say what would be made. The same twice is once."""
        body = read(PoolBody, await json_body(request), "pool")
        plan = await pool_deeds.add_pool(house, caller_of(request).user.name, body)
        return {**plan_shape(house, plan), "dry_run": body.dry_run}

    @router.get("/pools/{name}")
    async def show(name: str) -> dict[str, Any]:
        """One pool, with all that it needs in its cloud, and what of that is there."""
        pool = house.pools.named(name)
        return plan_shape(house, PoolPlan(pool, await house.pools.steps(pool)))

    @router.delete("/pools/{name}")
    async def remove(name: str, request: Request) -> dict[str, Any]:
        """Take it away, and what was made for it. Not while sessions are on its nodes."""
        return pool_shape(house, await pool_deeds.remove_pool(house, caller_of(request).user.name, name))

    return router


def plan_shape(house: House, plan: PoolPlan) -> dict[str, Any]:
    return {**pool_shape(house, plan.pool), "steps": [step_shape(step) for step in plan.steps]}


def step_shape(step: Step) -> dict[str, Any]:
    return {"what": step.what, "name": step.name, "there": step.there, "details": dict(step.details)}


def pool_shape(house: House, pool: Pool) -> dict[str, Any]:
    machine, there = pool.machine, [node for node in house.nodes if node.pool == pool.name]
    waiting = {session.seat.node for session in house.book.holding() if session.seat is not None and is_coming(pool, session.seat.node)}
    return {
        "name": pool.name, "cloud": pool.cloud, "cluster": pool.cluster or None, "state": pool.state, "trouble": pool.trouble or None,
        "instance": machine.instance, "gpu_kind": machine.gpu_kind, "gpus": machine.gpus, "gpu_memory_bytes": machine.gpu_memory_bytes,
        "cpus": machine.cpus_milli / 1000, "memory_bytes": machine.memory_bytes, "min": pool.least, "max": pool.most,
        "nodes": len(there), "ready": sum(node.state is NodeState.READY for node in there), "coming": len(waiting),
        "boot_s": pool.boot_s, "boot_learnt": bool(pool.boots_s),
        "price_hour": None if machine.price_micros is None else machine.price_micros / 1_000_000, "price_of": machine.price_of or None,
        "cost": {
            "least": price_words(machine, pool.least), "now": price_words(machine, len(there)), "most": price_words(machine, pool.most),
        },
        "made_by": pool.made_by, "made_at": moment(pool.made_at),
    }  # fmt: skip


def is_coming(pool: Pool, node: str) -> bool:
    return node.startswith(f"{pool.name}+")
