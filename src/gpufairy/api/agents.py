"""Routes of hosts that are watched: an agent asks to be let in, an admin accepts it, it reports."""
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from gpufairy.api.agent_disk import add_disk_reports
from gpufairy.api.agent_stamp import stamp_of
from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body, whole_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control import govern
from gpufairy.control.intake import COME_AGAIN, Intake
from gpufairy.control.watch import Watch
from gpufairy.core.agent import Agent, AgentWaiting, fingerprint
from gpufairy.core.believe import heartbeat, own_gpus, own_sessions
from gpufairy.core.errors import Busy
from gpufairy.core.names import node_name
from gpufairy.core.node_sample import NodeSample
from gpufairy.wire.read import read
from gpufairy.wire.report import AcceptBody, HelloBody, RefusedSample, Report, read_report


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=f"{API}/agents", tags=["agents"])
    add_for_agents(router, context)
    add_for_admins(router, context)
    return router


def add_for_agents(router: APIRouter, context: Context) -> None:
    house, intake = context.house, Intake()
    add_disk_reports(router, house, intake)

    @router.post("/hello")
    async def hello(request: Request) -> dict[str, Any]:
        """An agent says its name and key; it may report once an admin has accepted the key."""
        body = read(HelloBody, await json_body(request), "hello")
        name, key = body.to_name(), body.to_key()
        epoch = house.agents.hello(name, key, request.client.host if request.client else "")
        return {"state": "waiting" if epoch is None else "accepted", "epoch": epoch, "fingerprint": fingerprint(key)}

    @router.post("/{name}/reports")
    async def reports(request: Request, name: str) -> dict[str, Any]:
        """What an agent saw of its host, signed. The last sample is of now; those before it could not be sent earlier."""
        stamp = stamp_of(request)
        intake.check_room()
        body = await whole_body(request)
        house.agents.check(node_name(name), stamp, body)
        with alive_if_put_off(house.watch, name), intake.hold(name, len(body)):
            if await request.is_disconnected():  # it waited for too long, and will send this again
                raise Busy(f"the agent of {name} did not wait for its turn", COME_AGAIN)
            report = read_report(body, name, house.clock(), intake.clock_wrong_by(name))
            intake.note_clock(name, report.clock_wrong_by)
            await take(name, report)
        return {"kept": len(report.heard), "refused": [refused_shape(one) for one in report.refused], **rules()}

    async def take(name: str, report: Report) -> None:
        """Of now first, since people look at that; then all of it goes to the disk."""
        live = unbelieved(name, report.refused[-1].why) if report.live is None else believed(report.live)
        house.watch.take(live, version=report.version)
        for earlier in report.heard:
            if earlier.sample.at < live.at:
                house.watch.note_xids(name, earlier.sample.xids)
        await context.keep_heard([replace(one, sample=believed(one.sample)) for one in report.heard])

    def believed(sample: NodeSample) -> NodeSample:
        return house.counted.told(own_gpus(own_sessions(sample, house.node_of), house.watch.own_devices()))

    def unbelieved(name: str, why: str) -> NodeSample:
        seen = house.watch.host(name)
        return heartbeat(name, house.clock(), None if seen is None else seen.sample, why)

    def rules() -> dict[str, Any]:
        told = context.watching
        asked = {"walk_disk": moment(house.disk.asked_of_agents())}
        return {"name_rules": list(told.name_rules), "user_labels": list(told.user_labels), "users": list(told.users), **asked}


@contextmanager
def alive_if_put_off(watch: Watch, name: str) -> Iterator[None]:
    """A host that must wait for its turn is not dead."""
    try:
        yield
    except Busy:
        watch.hear(name)
        raise


def add_for_admins(router: APIRouter, context: Context) -> None:
    agents = context.house.agents

    @router.get("")
    async def listed() -> dict[str, Any]:
        """Hosts whose agents may report, and those that ask to."""
        return {"items": [*map(agent_shape, agents.accepted()), *map(waiting_shape, agents.waiting())], "next": None}

    @router.post("/{name}/accept")
    async def accept(request: Request, name: str) -> JSONResponse:
        """Let the agent that asks under this name report; with `fingerprint`, only if its key is that one."""
        body = read(AcceptBody, await json_body(request), "accept")
        return JSONResponse(agent_shape(await govern.accept_agent(context.house, caller_of(request).user.name, name, body.fingerprint)))

    @router.delete("/{name}", status_code=204)
    async def remove(request: Request, name: str) -> Response:
        """Take no more reports of this host. What it told stays in the history."""
        await govern.forget_agent(context.house, caller_of(request).user.name, name)
        return Response(status_code=204)


def refused_shape(sample: RefusedSample) -> dict[str, Any]:
    return {"at": sample.at, "why": sample.why}


def agent_shape(agent: Agent) -> dict[str, Any]:
    return {
        "name": agent.name, "state": "accepted", "fingerprint": fingerprint(agent.key),
        "accepted_at": moment(agent.accepted_at), "accepted_by": agent.accepted_by,
    }  # fmt: skip


def waiting_shape(asker: AgentWaiting) -> dict[str, Any]:
    return {
        "name": asker.name, "state": "waiting", "fingerprint": fingerprint(asker.key),
        "address": asker.address, "asked_at": moment(asker.asked_at), "replaces": asker.replaces,
    }  # fmt: skip
