"""Admin: what happened (events), and of that what people did (audit). Filters are in the address, so that a finding can be sent on."""
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.house import House
from gpufairy.core.amounts import parse_duration
from gpufairy.core.errors import BadInput, FairyError
from gpufairy.core.lifecycle import state_word
from gpufairy.core.steps import Event
from gpufairy.store.events import EventQuery
from gpufairy.web.admin import show_admin
from gpufairy.web.asked import asked
from gpufairy.web.context import PageContext
from gpufairy.web.event_words import about_words, what_words
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import ago_words, clock_words, hue_of

PAGE_ROWS = 50
FIELDS = ("user", "session", "what", "since", "until")


@dataclass(frozen=True, slots=True)
class EventRow:
    number: int
    at: str
    ago: str
    what: str
    what_href: str  # all of that sort
    about: str
    href: str | None
    owner: str
    hue: str
    state: str
    why: str
    actor: str


@dataclass(frozen=True, slots=True)
class EventsPage:
    answer: str
    rows: tuple[EventRow, ...]
    older: str  # the address of the next page; empty: there is none
    newest: str


def add_events(router: APIRouter, context: PageContext) -> None:
    house = context.house

    @router.get("/admin/events")
    async def events(request: Request) -> Response:
        return await page(request, "events")

    @router.get("/admin/audit")
    async def audit(request: Request) -> Response:
        return await page(request, "audit")

    async def page(request: Request, section: str) -> Response:
        typed = {name: request.query_params.get(name, "")[:255] for name in FIELDS}
        trouble, query = None, EventQuery(by_people=section == "audit")
        try:
            query = replace(query_of(typed, house.clock()), by_people=query.by_people)
        except FairyError as error:
            trouble = Trouble("filter", error.detail, error.next_step, typed)
        seen = await events_page(house, query, typed, before_of(request), f"/admin/{section}")
        live = LOOK_AGAIN_S if before_of(request) is None else None
        return show_admin(request, section, trouble, template="admin_events.html", refresh_s=live, seen=seen, typed=typed)


def before_of(request: Request) -> int | None:
    text = request.query_params.get("before", "")
    return int(text) if text.isdecimal() and len(text) < 19 else None


def query_of(typed: Mapping[str, str], now: datetime) -> EventQuery:
    return EventQuery(
        typed["user"].strip(), typed["session"].strip(), typed["what"].strip(), moment_of(typed["since"], now, "since"),
        moment_of(typed["until"], now, "until"),
    )  # fmt: skip


def moment_of(text: str, now: datetime, what: str) -> datetime | None:
    """`2h` ago, or a time by the clock of whoever asks."""
    text = text.strip()
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - parse_duration(text, what)
        except BadInput as error:
            raise BadInput(error.detail, "Write how long ago (90s, 2h, 1d), or a time such as 2026-11-15 14:00.") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=asked().zone).astimezone(UTC) if asked().zone else at.astimezone(UTC)


async def events_page(house: House, query: EventQuery, typed: Mapping[str, str], before: int | None, path: str) -> EventsPage:
    found = await house.store.events.search(query, before=before, limit=PAGE_ROWS + 1)
    now, shown = house.clock(), found[:PAGE_ROWS]
    filters = {name: value for name, value in typed.items() if value}
    older = f"{path}?{urlencode({**filters, 'before': str(shown[-1].number)})}" if len(found) > PAGE_ROWS else ""
    newest = f"{path}?{urlencode(filters)}" if before is not None else ""
    return EventsPage(answer(shown, bool(filters), query.by_people), tuple(event_row(event, now) for event in shown), older, newest)


def answer(shown: list[Event], filtered: bool, by_people: bool) -> str:
    if shown:
        return _("Who changed what, newest first.") if by_people else _("What happened, newest first.")
    if filtered:
        return _("Nothing that fits the filter has happened.")
    return _("Nobody has changed anything yet.") if by_people else _("Nothing has happened yet.")


def event_row(event: Event, now: datetime) -> EventRow:
    state = state_word(event.phase) if event.owner else ""
    return EventRow(
        event.number, clock_words(event.at, now), ago_words(event.at, max(now, event.at)), what_words(event.what),
        f"/admin/events?{urlencode({'what': event.what})}", about_words(event), href_of(event),
        event.owner, hue_of(event.owner), state, event.why, event.actor,
    )  # fmt: skip


def href_of(event: Event) -> str | None:
    sort, colon, name = event.session_id.partition(":")
    if event.owner:
        return f"/admin/events?{urlencode({'session': event.session_id})}"
    if colon and sort == "user":
        return f"/admin/users/{quote(name)}"
    places = {
        "team": "/admin/teams", "quota": "/admin/quotas", "node": "/admin/nodes", "share": "/admin/shares", "image": "/admin/images",
        "class": "/admin/classes", "pool": "/admin/pools",
    }  # fmt: skip
    return places.get(sort) if colon else f"/admin/mig?{urlencode({'gpu': event.session_id})}"
