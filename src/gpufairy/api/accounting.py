"""Route of the accounts: GPU-hours held and used, energy and cost of a month or a year, as JSON, CSV or a page to print."""
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of
from gpufairy.api.policy import API
from gpufairy.api.readings import HOUR_S
from gpufairy.api.shapes import moment, number
from gpufairy.control.account_sheet import account_page
from gpufairy.control.accounting import Account, account_of
from gpufairy.core.account_csv import account_csv
from gpufairy.core.account_html import CSP
from gpufairy.core.accounting import AccountBy, Amount
from gpufairy.core.errors import BadInput
from gpufairy.core.fair_ledger import gpu_seconds
from gpufairy.core.tariff import MILLIJOULES_OF_A_KWH, MILLION, Tariff


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["readings"]), context.house

    @router.get("/accounting")
    async def accounting(
        request: Request,
        *,
        month: str = Query("this", max_length=20, description="2026-11, a year such as 2026, this or last"),
        by: AccountBy = AccountBy.USER,
        format: str = Query("json", max_length=10, description="json, csv or html", json_schema_extra={"enum": ["json", "csv", "html"]}),
        language: str = Query("en", max_length=5, description="of the html: en or ko"),
    ) -> Response:
        """What was held, used and drawn, and what it costs. Yours; admins see all. Null is not known. Sums are those of the ledger."""
        caller = caller_of(request)
        found = await account_of(house, month, None if caller.is_admin else caller.user.name)
        match format:
            case "json":
                return JSONResponse(account_shape(found, by, house.tariff))
            case "csv":
                text = account_csv(found.rows(by), found.total, by, house.tariff.currency)
                return Response(text.encode(), media_type="text/csv; charset=utf-8")
            case "html":
                return Response(account_page(house, found, language), headers={"Content-Security-Policy": CSP}, media_type="text/html")
        raise BadInput(f"format: found {format[:20]!r}", "Write json, csv or html.")

    return router


def account_shape(found: Account, by: AccountBy, tariff: Tariff) -> dict[str, Any]:
    rates = [rate for rate in tariff.rates if rate.since < found.until]
    return {
        "period": found.period.name, "since": moment(found.period.since), "until": moment(found.until), "over": found.is_over, "by": by,
        "owner": found.owner, "currency": tariff.currency or None, "decimals": tariff.decimals, "priced": bool(rates),
        "items": [{"name": row.name or None, **amount_shape(row.amount)} for row in found.rows(by)],
        "total": amount_shape(found.total), "next": None,
    }  # fmt: skip


def amount_shape(amount: Amount) -> dict[str, Any]:
    """`_part_us`: parts (a GPU is a million) times microseconds; `cost_millionths`: whole, so that a script's sums are as exact as ours."""
    return {
        "held_gpu_hours": hours(amount.held), "used_gpu_hours": None if amount.used is None else hours(amount.used),
        "use_unknown_gpu_hours": hours(amount.unknown),
        "energy_kwh": None if amount.energy is None else number(amount.energy / MILLIJOULES_OF_A_KWH),
        "energy_unknown_gpu_hours": hours(amount.energy_unknown),
        "cost": None if amount.cost is None else number(amount.cost / MILLION), "unpriced_gpu_hours": hours(amount.unpriced),
        "held_part_us": amount.held, "used_part_us": amount.used, "energy_mj": amount.energy, "cost_millionths": amount.cost,
    }  # fmt: skip


def hours(part_micros: int) -> float | int:
    return number(round(gpu_seconds(part_micros) / HOUR_S, 6))
