"""Routes of how GPUs are shared: how many fGPU each is, by what means fractions are held, and whether that was tested."""
from typing import Any

from fastapi import APIRouter, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment, number
from gpufairy.control import govern
from gpufairy.core.node import Gpu, Node
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, SHARED_FAULTS, SM, IsolationTest, ShareRule, sharing_of
from gpufairy.devices.mps_values import MpsStatus
from gpufairy.wire.read import read
from gpufairy.wire.shares import ShareBody


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["cluster"]), context.house

    @router.get("/shares")
    async def shares() -> dict[str, Any]:
        """Every GPU that sessions run on: how many fGPU it is, how fractions of it are held, and what was found enforced."""
        return shares_shape(context)

    @router.put("/shares")
    async def change(request: Request) -> dict[str, Any]:
        """Say how a GPU (by UUID), a kind or all (`*`) are shared."""
        rule = read(ShareBody, await json_body(request), "share").to_rule()
        await govern.set_sharing(house, caller_of(request).user.name, rule)
        return shares_shape(context)

    @router.delete("/shares")
    async def clear(request: Request, of: str) -> dict[str, Any]:
        """Take a rule back: the more general one counts again."""
        await govern.clear_sharing(house, caller_of(request).user.name, of)
        return shares_shape(context)

    return router


def shares_shape(context: Context) -> dict[str, Any]:
    house = context.house
    tests, daemons = {(test.gpu, test.sharing): test for test in house.shares.tests()}, {status.gpu: status for status in context.mps()}
    return {
        "items": [
            {**gpu_share_shape(node, gpu, tests.get((gpu.uuid, sharing_of(gpu)))), "mps": mps_shape(daemons.get(gpu.uuid))}
            for node in house.nodes
            for gpu in node.gpus
        ],
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


def mps_shape(status: MpsStatus | None) -> dict[str, Any] | None:
    """None: no daemon runs, and none should."""
    if status is None or (status.daemon_pid is None and not status.trouble):
        return None
    caps = None if status.caps is None else {"sm_percent": status.caps.sm_percent, "memory_bytes": status.caps.memory_bytes}
    return {
        "daemon_pid": status.daemon_pid, "clients": len(status.clients), "client_limit": status.client_limit, "caps": caps,
        "since": moment(status.since), "trouble": status.trouble or None,
    }  # fmt: skip


def rule_shape(rule: ShareRule) -> dict[str, Any]:
    return {"of": rule.of, "fgpu": None if rule.fgpu_parts is None else number(rule.fgpu_parts / PARTS), "sharing": rule.sharing}
