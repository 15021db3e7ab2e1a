"""The ledger as a page: who held how much of the GPUs, what was theirs by right, who is ahead and who behind."""
from dataclasses import dataclass
from datetime import timedelta

from gpufairy.control.house import House
from gpufairy.control.ledger import ledger_of
from gpufairy.core.fair_ledger import LedgerBy, LedgerRow, gpu_seconds
from gpufairy.core.people import Role, User
from gpufairy.web.speech import _
from gpufairy.web.times import clock, column_figure
from gpufairy.web.words import hue_of

PERIODS = {"1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30), "90d": timedelta(days=90)}
USUAL = "7d"
HOUR_S = 3600
EVEN_H = 0.05  # a difference of some minutes is none
MOST_ROWS = 500
PLACES = 1  # six minutes of a GPU: nobody argues about less


@dataclass(frozen=True, slots=True)
class Period:
    by: LedgerBy = LedgerBy.USER
    since: str = USUAL


@dataclass(frozen=True, slots=True)
class FairRow:
    """Hours of a whole GPU. Bars are hundredths of the longest."""

    name: str
    team: str
    hue: str
    held: str
    entitled: str
    used: str  # empty: not the reader's to know, or not known
    unknown: str  # held while nobody could tell the use
    balance: str
    behind: bool
    held_bar: float
    used_bar: float
    entitled_bar: float
    befell: str  # `2 lent, 1 reclaimed`
    mine: bool


@dataclass(frozen=True, slots=True)
class FairnessPage:
    period: Period
    answer: str
    next_step: str
    since: str
    rows: tuple[FairRow, ...]
    held: str
    more: int


def period_of(by: str, since: str) -> Period:
    return Period(LedgerBy(by) if by in set(LedgerBy) else LedgerBy.USER, since if since in PERIODS else USUAL)


async def fairness_page(house: House, user: User, period: Period) -> FairnessPage:
    now = house.clock()
    found = await ledger_of(house, period.by, now - PERIODS[period.since])
    longest = max((max(row.held, row.entitled) for row in found.rows), default=0)
    rows = tuple(fair_row(row, longest, user, period.by) for row in found.rows[:MOST_ROWS])
    own = next((row for row in found.rows if is_own(row, user, period.by)), None)
    return FairnessPage(
        period, answer(own, found.held, period.by), next_step(own), clock(found.since, now), rows, hours_words(found.held),
        len(found.rows) - len(rows),
    )  # fmt: skip


def is_own(row: LedgerRow, user: User, by: LedgerBy) -> bool:
    return row.name == (user.name if by is LedgerBy.USER else user.team or user.name)


def answer(own: LedgerRow | None, held: int, by: LedgerBy) -> str:
    if not held:
        return _("Nobody held a GPU in that time.")
    if own is None:
        return _("You neither held nor asked for a GPU in that time.")
    ahead = hours_of(own.ahead)
    told = _("Your team held {held} GPU-hours; {entitled} were its by right.") if by is LedgerBy.TEAM else _(
        "You held {held} GPU-hours; {entitled} were yours by right."
    )
    balance = _("That is even.") if abs(ahead) < EVEN_H else _("That is {balance}.").format(balance=balance_words(ahead))
    return f"{told.format(held=hours_words(own.held), entitled=hours_words(own.entitled))} {balance}"


def next_step(own: LedgerRow | None) -> str:
    if own is None or abs(hours_of(own.ahead)) < EVEN_H:
        return _("Whoever had less than their share of late goes first when GPUs come free.")
    if own.ahead > 0:
        return _("Others who had less go first until it evens out; preemptible sessions may use what nobody else wants.")
    return _("What you ask for now goes before those who had more.")


def fair_row(row: LedgerRow, longest: int, user: User, by: LedgerBy) -> FairRow:
    mine = is_own(row, user, by)
    use = row.use if user.role is Role.ADMIN or (mine and by is LedgerBy.USER) else None
    used_s = None if use is None else use.used_s
    unknown_s = 0.0 if use is None else use.unknown_s
    ahead = hours_of(row.ahead)
    return FairRow(
        row.name, row.team or "", hue_of(row.name), hours_words(row.held), hours_words(row.entitled),
        "" if used_s is None else column_figure(used_s / HOUR_S, PLACES),
        column_figure(unknown_s / HOUR_S, PLACES) if unknown_s >= EVEN_H * HOUR_S else "",
        _("even") if abs(ahead) < EVEN_H else balance_words(ahead), ahead <= -EVEN_H, bar_of(row.held, longest),
        0.0 if used_s is None or not longest else 100 * used_s / gpu_seconds(longest), bar_of(row.entitled, longest),
        befell_words(row), mine,
    )  # fmt: skip


def balance_words(ahead_h: float) -> str:
    words = _("{hours} GPU-hours ahead") if ahead_h > 0 else _("{hours} GPU-hours behind")
    return words.format(hours=column_figure(abs(ahead_h), PLACES))


def befell_words(row: LedgerRow) -> str:
    names = {"lent": _("lent"), "shrunk": _("shrunk"), "reclaimed": _("reclaimed"), "preempted": _("preempted")}
    return ", ".join(f"{count} {names.get(what, what)}" for what, count in row.counts if count)


def bar_of(part_micros: int, longest: int) -> float:
    return 100 * part_micros / longest if longest else 0.0


def hours_of(part_micros: int) -> float:
    return gpu_seconds(part_micros) / HOUR_S


def hours_words(part_micros: int) -> str:
    return column_figure(hours_of(part_micros), PLACES)
