"""Route of the fairness ledger: who had how much of the GPUs, and how much was theirs by right."""
from typing import Any

from fastapi import APIRouter, Query, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of
from gpufairy.api.policy import API
from gpufairy.api.readings import HOUR_S, time_of
from gpufairy.api.shapes import moment, number
from gpufairy.control.find import may_see_of
from gpufairy.control.ledger import ledger_of
from gpufairy.core.fair_ledger import LedgerBy, LedgerRow, gpu_seconds


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["readings"]), context.house

    @router.get("/ledger")
    async def ledger(
        request: Request,
        by: LedgerBy = LedgerBy.USER,
        since: str = Query("7d", max_length=60, description="how far back, such as 7d, or a time"),
        until: str | None = Query(None, max_length=60, description="likewise; else now"),
    ) -> dict[str, Any]:
        """GPU-hours of every user or team: held, entitled, ahead (below 0: behind). What was used is told of your own; admins see all."""
        now, caller = house.clock(), caller_of(request)
        found = await ledger_of(house, by, time_of(since, now, "since"), None if until is None else time_of(until, now, "until"))
        rows = [row_shape(row, caller.is_admin or (by is LedgerBy.USER and may_see_of(caller, row.name))) for row in found.rows]
        total = {"held_gpu_hours": hours(found.held)}
        return {"by": by, "since": moment(found.since), "until": moment(found.until), "items": rows, "total": total, "next": None}

    return router


def row_shape(row: LedgerRow, use_shown: bool) -> dict[str, Any]:
    """`held_part_us`: parts (a GPU is a million) times microseconds: whole, so that a script's sums are as exact as ours."""
    use = row.use if use_shown else None
    used_s, unknown_s = (None, None) if use is None else (use.used_s, use.unknown_s)
    return {
        "name": row.name, "team": row.team, "held_gpu_hours": hours(row.held), "charged_gpu_hours": hours(row.charged),
        "entitled_gpu_hours": hours(row.entitled), "ahead_gpu_hours": hours(row.ahead),
        "used_gpu_hours": None if used_s is None else number(round(used_s / HOUR_S, 4)),
        "unknown_gpu_hours": None if unknown_s is None else number(round(unknown_s / HOUR_S, 4)), "used_shown": use_shown,
        "held_part_us": row.held, "entitled_part_us": row.entitled, **dict(row.counts),
    }  # fmt: skip


def hours(part_micros: int) -> float | int:
    return number(round(gpu_seconds(part_micros) / HOUR_S, 4))
