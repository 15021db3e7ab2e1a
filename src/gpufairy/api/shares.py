"""Routes of how GPUs are shared: how many fGPU each is, by what means fractions are held, and whether that was tested."""
from typing import Any

from fastapi import APIRouter, Request

from gpufairy.api.context import Context
from gpufairy.api.door import json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment, number
from gpufairy.control.house import House
from gpufairy.core.errors import Conflict
from gpufairy.core.node import Gpu, Node, Sharing
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, SHARED_FAULTS, SM, IsolationTest, ShareRule, sharing_of
from gpufairy.wire.read import read
from gpufairy.wire.shares import ShareBody


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["cluster"]), context.house

    @router.get("/shares")
    async def shares() -> dict[str, Any]:
        """Every GPU that sessions run on: how many fGPU it is, how fractions of it are held, and what was found enforced."""
        return shares_shape(house)

    @router.put("/shares")
    async def change(request: Request) -> dict[str, Any]:
        """Say how a GPU (by UUID), a kind or all (`*`) are shared."""
        rule = read(ShareBody, await json_body(request), "share").to_rule()
        if rule.sharing is Sharing.MPS and house.engine.name == "process":
            raise Conflict("sessions are plain processes here, which nothing holds to a share", "Run them in containers: --engine docker.")
        await house.shares.set(rule, house.found_nodes(), house.book.holding())
        return await applied(house)

    @router.delete("/shares")
    async def clear(of: str) -> dict[str, Any]:
        """Take a rule back: the more general one counts again."""
        await house.shares.clear(of, house.found_nodes(), house.book.holding())
        return await applied(house)

    return router


async def applied(house: House) -> dict[str, Any]:
    await house.look_at_nodes()
    house.bells.place.set()
    return shares_shape(house)


def shares_shape(house: House) -> dict[str, Any]:
    tests = {(test.gpu, test.sharing): test for test in house.shares.tests()}
    return {
        "items": [gpu_share_shape(node, gpu, tests.get((gpu.uuid, sharing_of(gpu)))) for node in house.nodes for gpu in node.gpus],
        "rules": [rule_shape(rule) for rule in house.shares.rules()],
        "note": SHARED_FAULTS,
        "next": None,
    }


def gpu_share_shape(node: Node, gpu: Gpu, test: IsolationTest | None) -> dict[str, Any]:
    return {
        "node": node.name, "index": gpu.index, "uuid": gpu.uuid, "kind": gpu.kind, "simulated": gpu.simulated,
        "fgpu": number(gpu.fgpu_parts / PARTS), "memory_bytes": gpu.memory_bytes,
        "fgpu_memory_bytes": gpu.memory_bytes * PARTS // max(gpu.fgpu_parts, 1), "sharing": sharing_of(gpu),
        "enforced": list(gpu.held_to), "accounted": [what for what in (MEMORY, SM) if what not in gpu.held_to],
        "tested_at": None if test is None else moment(test.at),
    }  # fmt: skip


def rule_shape(rule: ShareRule) -> dict[str, Any]:
    return {"of": rule.of, "fgpu": None if rule.fgpu_parts is None else number(rule.fgpu_parts / PARTS), "sharing": rule.sharing}
