"""The queue: whose turn it is and why, when each may start, what is promised to the first, what quotas bind the reader."""
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.find import may_see, wait_of
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.explain import Wait
from gpufairy.core.lifecycle import Phase
from gpufairy.core.quota_rules import ANY_KIND, Rule, Used, rules_for
from gpufairy.core.session import Session
from gpufairy.core.share import PARTS
from gpufairy.web.fair_tree_view import Standing, fair_tree
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import clock, counted_gpus, figure_of, length
from gpufairy.web.words import UNBROKEN, hue_of, share_words

ROWS, MOST_ROWS = 50, 500


@dataclass(frozen=True, slots=True)
class QueueRow:
    place: int | None
    owner: str
    hue: str
    name: str  # empty: somebody else's, whose names are nobody's business
    asks: str
    waited: str
    start: str  # `14:20`
    between: str  # `14:05 to 14:50`
    why: str
    start_why: str
    mine: bool


@dataclass(frozen=True, slots=True)
class QuotaRow:
    who: str
    what: str
    used: str
    part: float  # hundredths, at most 100
    full: bool


@dataclass(frozen=True, slots=True)
class QueuePage:
    answer: str
    next_step: str
    rows: tuple[QueueRow, ...]
    waiting: int
    more: int
    held_back: int  # that wait for another session's end, and are not in line yet
    promise: str
    tree: tuple[Standing, ...]
    half_life: str
    quotas: tuple[QuotaRow, ...]


def rows_of(text: str) -> int:
    return min(MOST_ROWS, max(1, int(text))) if text.isdecimal() and len(text) <= 4 else ROWS


def queue_page(house: House, caller: Caller, most: int) -> QueuePage:
    view, now, user = house.outlook(), house.clock(), caller.user
    live = [found for one in view.order if (found := house.book.get(one.id)) is not None and found.phase is Phase.QUEUED]
    rows = tuple(queue_row(session, wait_of(house, session, caller, advise=False), caller, now) for session in live[:most])
    first_mine = next((session for session in live if session.owner == user.name), None)
    mine = None if first_mine is None else wait_of(house, first_mine, caller)
    cluster, teams = house.cluster(), {one.name: one.team for one in house.registry.users()}
    waiting = house.book.waiting()
    return QueuePage(
        answer(first_mine, mine, waiting, rows, now),
        "" if mine is None else mine.next_step,
        rows,
        waiting,
        max(0, waiting - len(house.book.held_back) - len(rows)),
        len(house.book.held_back),
        promise_words(house, caller, now),
        fair_tree(cluster, teams, user.name, now),
        length(house.policy.half_life),
        quota_rows(house, caller),
    )


def answer(mine: Session | None, wait: Wait | None, waiting: int, rows: tuple[QueueRow, ...], now: datetime) -> str:
    if not waiting:
        return _("Nobody waits: what you start now starts at once, if there is room for it.")
    if mine is not None and wait is not None and wait.place is not None:
        if wait.forecast_start is None:
            return _("Yours is number {place} of {all}.").format(place=wait.place, all=waiting)
        start = clock(max(wait.forecast_start, now), now)
        return _("Yours is number {place} of {all}, and starts at about {time}.").format(place=wait.place, all=waiting, time=start)
    told = ngettext("{count} session waits", "{count} sessions wait", waiting).format(count=waiting)
    if rows and rows[0].start:
        return _("{sessions}; the first starts at about {time}. None is yours.").format(sessions=told, time=rows[0].start)
    return _("{sessions}. None is yours.").format(sessions=told)


def queue_row(session: Session, wait: Wait | None, caller: Caller, now: datetime) -> QueueRow:
    start = None if wait is None else wait.forecast_start
    return QueueRow(
        None if wait is None else wait.place, session.owner, hue_of(session.owner),
        session.name if may_see(caller, session) else "", asked_words(session), length(now - session.submitted_at),
        "" if start is None else clock(max(start, now), now), between(wait, now), session.why if wait is None else wait.summary,
        "" if wait is None else wait.forecast_why, session.owner == caller.user.name,
    )  # fmt: skip


def asked_words(session: Session) -> str:
    kind = session.request.gpu_kind
    return share_words(session.request.share) + (f"{UNBROKEN}{kind}" if kind else "")


def between(wait: Wait | None, now: datetime) -> str:
    if wait is None or wait.forecast_low is None or wait.forecast_start is None:
        return ""
    low = clock(max(wait.forecast_low, now), now)
    if wait.forecast_high is None:
        return _("{low} or later").format(low=low)
    high = clock(max(wait.forecast_high, now), now)
    return "" if low == high else _("{low} to {high}").format(low=low, high=high)


def promise_words(house: House, caller: Caller, now: datetime) -> str:
    """What the first in line can count on; empty: nothing is promised."""
    promise = house.plan.promise
    live = None if promise is None else house.book.get(promise.session.id)
    if promise is None or live is None or live.phase is not Phase.QUEUED:
        return ""
    gpus = counted_gpus(sum(seat.gpu_parts for seat in promise.seats) / PARTS)
    who = live.name if may_see(caller, live) else _("a session of {owner}").format(owner=live.owner)
    if promise.start is None:
        return _("First in line is {who}: {gpus} on {node} are kept for it, from whenever they come free.").format(
            who=who, gpus=gpus, node=promise.node
        )
    words = _("First in line is {who}: {gpus} on {node} are promised to it by {time}. Who passes it now must be gone by then.")
    return words.format(who=who, gpus=gpus, node=promise.node, time=clock(max(promise.start, now), now))


def quota_rows(house: House, caller: Caller) -> tuple[QuotaRow, ...]:
    rules = rules_for(house.quotas.all(), caller.user.name, caller.user.team)
    allowances = house.quotas.allowances(house.book.holding(), house.nodes)
    return tuple(row for rule in rules for row in bounds_of(rule, allowances.used(rule)))


def bounds_of(rule: Rule, used: Used) -> list[QuotaRow]:
    quota, rows = rule.quota, []
    who = _("you") if rule.who.startswith("user:") else _("team {name}").format(name=rule.who.removeprefix("team:"))
    kind = "" if quota.gpu_kind == ANY_KIND else f" {quota.gpu_kind}"
    if quota.gpu_parts is not None:
        rows.append(quota_row(who, _("GPUs at once") + kind, used.gpu_parts / PARTS, quota.gpu_parts / PARTS))
    if quota.gpu_hours_week is not None:
        rows.append(quota_row(who, _("GPU-hours in 7 days") + kind, used.gpu_seconds / 3600, quota.gpu_hours_week))
    if quota.sessions is not None:
        rows.append(quota_row(who, _("sessions at once") + kind, used.sessions, quota.sessions))
    return rows


def quota_row(who: str, what: str, used: float, limit: float) -> QuotaRow:
    part = 100.0 if limit <= 0 else min(100.0, 100 * used / limit)
    told = _("{used} of {limit}").format(used=figure_of(used), limit=figure_of(limit)).replace(" ", UNBROKEN)
    return QuotaRow(who, what, told, part, used >= limit)
