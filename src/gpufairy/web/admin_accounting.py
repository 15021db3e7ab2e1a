"""Admin: accounting. A month by user, team, image or kind of GPU: held, used, energy, cost; as a page to print and as CSV too."""
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.account_sheet import account_page
from gpufairy.control.accounting import Account, account_of
from gpufairy.control.house import House
from gpufairy.core.account_csv import account_csv
from gpufairy.core.account_html import CSP, hours_shown, kwh_shown
from gpufairy.core.accounting import AccountBy, Amount, period_of
from gpufairy.core.errors import BadInput
from gpufairy.core.people import Role
from gpufairy.web.admin import show_admin
from gpufairy.web.asked import asked
from gpufairy.web.context import PageContext
from gpufairy.web.forms import caller_of
from gpufairy.web.speech import _
from gpufairy.web.words import UNBROKEN, hue_of

MOST_ROWS = 500
MONTHS_OFFERED = 12


@dataclass(frozen=True, slots=True)
class Figures:
    held: str
    used: str  # empty: not known, as the next two
    energy: str
    cost: str


@dataclass(frozen=True, slots=True)
class AccountLine:
    name: str
    hue: str
    figures: Figures
    bar: float  # hundredths of the largest
    used_bar: float


@dataclass(frozen=True, slots=True)
class AccountingPage:
    month: str
    by: str
    answer: str
    notes: tuple[str, ...]
    lines: tuple[AccountLine, ...]
    total: Figures
    priced: bool
    more: int
    months: tuple[str, ...]
    bys: tuple[tuple[str, str], ...]


def add_accounting(router: APIRouter, context: PageContext) -> None:
    house = context.house

    @router.get("/admin/accounting")
    async def accounting(request: Request) -> Response:
        asked_for = request.query_params
        found = await account_of(house, asked_for.get("month", "this")[:20])
        return show_admin(request, "accounting", seen=accounting_page(house, found, by_of(asked_for.get("by", ""))))

    @router.get("/accounting/report")
    async def report(request: Request) -> Response:
        """Of one's own; admins see all, unless they ask for their own."""
        user, asked_for = caller_of(request).user, request.query_params
        all_of_them = user.role is Role.ADMIN and asked_for.get("own") is None
        found = await account_of(house, asked_for.get("month", "this")[:20], None if all_of_them else user.name)
        return as_file(house, found, by_of(asked_for.get("by", "")), asked_for.get("format", "html"))


def as_file(house: House, found: Account, by: AccountBy, form: str) -> Response:
    if form == "html":
        headers = {"Content-Security-Policy": CSP, "Cache-Control": "no-store"}
        return Response(account_page(house, found, asked().language), headers=headers, media_type="text/html; charset=utf-8")
    if form != "csv":
        raise BadInput(f"format: found {form[:20]!r}", "Write html or csv.")
    headers = {"Content-Disposition": f'attachment; filename="gpus-{found.period.name}.csv"', "Cache-Control": "no-store"}
    text = account_csv(found.rows(by), found.total, by, house.tariff.currency)
    return Response(text.encode(), headers=headers, media_type="text/csv; charset=utf-8")


def by_of(text: str) -> AccountBy:
    return AccountBy(text) if text in set(AccountBy) else AccountBy.USER


def accounting_page(house: House, found: Account, by: AccountBy) -> AccountingPage:
    rows = found.rows(by)
    longest = max((row.amount.held for row in rows), default=0)
    lines = tuple(
        AccountLine(
            row.name or nothing_words(by), hue_of(row.name), figures(house, row.amount), 100 * row.amount.held / longest,
            100 * (row.amount.used or 0) / longest,
        )
        for row in rows[:MOST_ROWS]
    )  # fmt: skip
    return AccountingPage(
        found.period.name, by.value, answer(house, found), notes(house, found.total), lines, figures(house, found.total),
        bool(house.tariff.rates), len(rows) - len(lines), months(house), by_words(),
    )  # fmt: skip


def figures(house: House, amount: Amount) -> Figures:
    return Figures(
        hours_shown(amount.held), "" if amount.used is None else hours_shown(amount.used),
        "" if amount.energy is None else f"{kwh_shown(amount.energy)}{UNBROKEN}kWh",
        "" if amount.cost is None else house.tariff.shown(amount.cost).replace(" ", UNBROKEN),
    )  # fmt: skip


def answer(house: House, found: Account) -> str:
    total = found.total
    if not total.held:
        return _("Nobody held a GPU in {month}.").format(month=found.period.name)
    told = _("{hours} GPU-hours were held in {month}.").format(hours=hours_shown(total.held), month=found.period.name)
    if total.cost is None:
        return told
    cost = _("They cost {amount}.").format(amount=house.tariff.shown(total.cost).replace(" ", UNBROKEN))
    return f"{told} {cost}"


def notes(house: House, total: Amount) -> tuple[str, ...]:
    told = (
        (total.unknown, _("Of {hours} GPU-hours held nobody could tell how much was used.")),
        (total.energy_unknown, _("The energy of {hours} GPU-hours was not metered.")),
        (total.unpriced if house.tariff.rates else 0, _("{hours} GPU-hours were held while no rate was in force.")),
    )
    found = [words.format(hours=hours_shown(amount)) for amount, words in told if hours_shown(amount) != hours_shown(0)]
    if not house.tariff.rates:
        found.append(_("No prices are set: they would stand under [tariff] in fairy.toml."))
    return tuple(found)


def nothing_words(by: AccountBy) -> str:
    return _("no team") if by is AccountBy.TEAM else _("not known")


def by_words() -> tuple[tuple[str, str], ...]:
    return (
        (AccountBy.USER.value, _("by user")), (AccountBy.TEAM.value, _("by team")), (AccountBy.KIND.value, _("by kind of GPU")),
        (AccountBy.IMAGE.value, _("by image")), (AccountBy.MONTH.value, _("by month")),
    )  # fmt: skip


def months(house: House) -> tuple[str, ...]:
    """The last ones, newest first, and this year."""
    now = house.clock().astimezone(house.tariff.zone)
    first = now.year * 12 + now.month - 1
    return (*(f"{number // 12:04d}-{number % 12 + 1:02d}" for number in range(first, first - MONTHS_OFFERED, -1)), f"{now.year:04d}")


async def own_month(house: House, user: str) -> Figures | None:
    """Of this month, for their own page. None: they held nothing."""
    found = await account_of(house, period_of("this", house.clock(), house.tariff.zone).name, user)
    return figures(house, found.total) if found.total.held else None
