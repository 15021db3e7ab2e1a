"""Routes that look back: readings over time, and GPU-time held and used."""
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment, number
from gpufairy.control.find import find_session, may_see_of
from gpufairy.control.history import Chronicle, UsageReport
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.amounts import parse_duration, shown
from gpufairy.core.errors import BadInput, NoSuchThing, NotAllowed
from gpufairy.core.names import nearest
from gpufairy.core.node import Gpu
from gpufairy.core.reading import GpuDevice
from gpufairy.core.series import Kind, Series
from gpufairy.core.session import Session
from gpufairy.core.usage import By, UsageRow

LONGEST_NAME = 200
HOUR_S = 3600

HOW_FAR = "how far back, such as 1h or 7d, or a time such as 2026-11-15T08:00:00Z"
Since = Query("1h", max_length=60, description=HOW_FAR)
SinceItBegan = Query(None, max_length=60, description=HOW_FAR)
Until = Query(None, max_length=60, description="likewise; else now")
StepText = Query(None, max_length=20, description="10s, 1m, 1h, or raw; else what suits the range")


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["readings"])
    house = context.house
    chronicle = Chronicle(house)

    @router.get("/readings")
    async def readings(
        request: Request,
        *,
        kind: Kind,
        name: str = Query(max_length=LONGEST_NAME, description="UUID of a GPU, name of a node, user or session"),
        since: str = Since,
        until: str | None = Until,
        step: str | None = StepText,
    ) -> JSONResponse:
        """How hard something worked, over time; null where it is not known. GPUs and nodes for everybody, the rest for its owner."""
        now, caller = house.clock(), caller_of(request)
        subject = await subject_name(house, caller, kind, name)
        begin, end = time_of(since, now, "since"), None if until is None else time_of(until, now, "until")
        found = await chronicle.series(kind, subject, begin, end, step=step_of(step))
        if not found.nodes:
            check_exists(house, kind, name)
        return JSONResponse(series_shape(found, name))

    @router.get("/sessions/{name}/readings")
    async def session_readings(
        request: Request, name: str, since: str | None = SinceItBegan, until: str | None = Until, step: str | None = StepText
    ) -> JSONResponse:
        """What a session held and used, over time: without `since` of its whole life."""
        now, session = house.clock(), await find_session(house, caller_of(request), name)
        begin, end = life_of(session, now) if since is None else (time_of(since, now, "since"), None)
        end = end if until is None else time_of(until, now, "until")
        return JSONResponse(series_shape(await chronicle.series(Kind.SESSION, session.id, begin, end, step=step_of(step)), session.name))

    @router.get("/usage")
    async def usage(
        request: Request, by: By = By.USER, since: str = Query("7d", max_length=60, description="how far back, such as 7d, or a time")
    ) -> dict[str, Any]:
        """GPU-hours held, used, and held while nobody knew the use. Of users and sessions: your own; admins see all."""
        caller = caller_of(request)
        own_only = by in (By.USER, By.SESSION) and not caller.is_admin
        report = await chronicle.usage(by, time_of(since, house.clock(), "since"), caller.user.name if own_only else None)
        return {
            "by": by, "since": moment(report.since), "until": moment(report.until),
            "items": await usage_shapes(house, report), "left_off": report.left_off, "next": None,
        }  # fmt: skip

    return router


async def subject_name(house: House, caller: Caller, kind: Kind, name: str) -> str:
    """What the history calls it; raises for what the caller may not see."""
    if kind is Kind.SESSION:
        return (await find_session(house, caller, name)).id
    if kind is Kind.USER and not may_see_of(caller, name):
        raise NotAllowed(f"what {shown(name)} used is shown to them and to admins", f"Ask for your own: name={caller.user.name}.")
    return name


def check_exists(house: House, kind: Kind, name: str) -> None:
    """Of what exists, nothing may be known yet; of anything else there is nothing to know."""
    if kind is Kind.USER:
        house.registry.user(name)
    if kind in (Kind.USER, Kind.SESSION):
        return
    hosts = [seen.node for seen in house.watch.hosts()] + [node.name for node in house.nodes]
    gpus = [*(gpu.uuid for node in house.nodes for gpu in node.gpus), *house.watch.devices()]
    known = gpus if kind is Kind.GPU else hosts
    if name not in known:
        next_step = "See `fairy smi`." if kind is Kind.GPU else "See `fairy node list`."
        raise NoSuchThing(f"no {kind} {shown(name)}{nearest(name, known)}", next_step)


def time_of(text: str, now: datetime, what: str) -> datetime:
    """`1h`: so long ago; or a time with or without a zone, which is UTC then."""
    if "-" not in text:
        return now - parse_duration(text, what)
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{what}: {shown(text)} is no time", "Write how far back, such as 1h or 7d, or 2026-11-15T08:00:00Z.") from None


def step_of(text: str | None) -> timedelta | None:
    if text is None:
        return None
    return timedelta() if text == "raw" else parse_duration(text, "step")


def life_of(session: Session, now: datetime) -> tuple[datetime, datetime | None]:
    """Since it was first given a seat, as far as is known; at least a minute, so that there is something to draw."""
    began = min(filter(None, (session.placed_at, session.started_at)), default=session.submitted_at)
    end = session.ended_at
    return min(began, (end or now) - timedelta(minutes=1)), end


def series_shape(series: Series, name: str) -> dict[str, Any]:
    """Plain already, and sent as it is: FastAPI would look at each of its thousands of numbers."""
    columns = {
        column: {"unit": found.unit, "mean": found.mean, **({} if found.max is None else {"max": found.max})}
        for column, found in series.columns.items()
    }
    return {
        "kind": series.kind, "name": name, "node": series.nodes[0] if len(series.nodes) == 1 else None, "nodes": list(series.nodes),
        "step_s": series.step_s, "times": [moment(at) for at in series.times], "columns": columns,
    }  # fmt: skip


async def usage_shapes(house: House, report: UsageReport) -> list[dict[str, Any]]:
    rows = [usage_shape(row) for row in report.rows]
    if report.by is By.SESSION:
        ids = [row.name for row in report.rows]
        found = {**await house.store.sessions.ended(ids), **{session.id: session for session in house.book if session.id in set(ids)}}
        for shape, row in zip(rows, report.rows, strict=True):
            session = found.get(row.name)
            shape |= {"id": row.name, "owner": row.owner, "name": session.name if session else row.name}
            shape["state"] = session.state if session else None
            shape["simulated"] = any(gpu.simulated for gpu in session.seat.gpus) if session and session.seat else None
    if report.by is By.GPU:
        known = known_gpus(house)
        for shape, row in zip(rows, report.rows, strict=True):
            found = known.get(row.name, {"node": row.node, "index": None, "kind": None, "simulated": None})
            shape |= {"uuid": row.name, **found, "node": row.node or found["node"]}
    return rows


def known_gpus(house: House) -> dict[str, dict[str, Any]]:
    """By UUID. Nobody else speaks for our own."""
    watched = {uuid: gpu_named(node, device) for uuid, (node, device) in house.watch.devices().items()}
    return watched | {gpu.uuid: gpu_named(node.name, gpu) for node in house.nodes for gpu in node.gpus}


def gpu_named(node: str, gpu: Gpu | GpuDevice) -> dict[str, Any]:
    return {"node": node, "index": gpu.index, "kind": gpu.kind, "simulated": gpu.simulated}


def usage_shape(row: UsageRow) -> dict[str, Any]:
    hours = {"held": row.held_s, "used": row.used_s, "unknown": row.unknown_s, "outside": row.outside_s}
    told = {f"{what}_gpu_hours": None if seconds is None else number(round(seconds / HOUR_S, 4)) for what, seconds in hours.items()}
    return {"name": row.name, **told}
