"""What the page of hosts shows beside them: maintenance that is planned, how long each was there, and what is held by nobody."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.house import House
from gpufairy.control.janitor import Janitor, LeakReport
from gpufairy.core.leaks import LOOKS, Repair, Sighting
from gpufairy.core.maintenance import Window
from gpufairy.core.uptime import UptimeRecord
from gpufairy.web.speech import _
from gpufairy.web.times import clock, length
from gpufairy.web.words import Mark

DOWNTIMES_SHOWN = 5
MENDED_SHOWN = 5
WORTH_SAYING = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class WindowRow:
    id: str
    node: str
    mark: Mark
    since: str
    until: str
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class DowntimeRow:
    when: str
    lasted: str
    why: str
    planned: bool


@dataclass(frozen=True, slots=True)
class UptimeRow:
    node: str
    part: str
    over: str
    aside: tuple[str, ...]  # what does not count, in words
    downtimes: tuple[DowntimeRow, ...]


@dataclass(frozen=True, slots=True)
class LeakRow:
    mark: Mark
    sentence: str
    todo: str
    since: str


@dataclass(frozen=True, slots=True)
class LeaksView:
    answer: str
    rows: tuple[LeakRow, ...]
    mended: tuple[tuple[str, str], ...]  # when, and what


@dataclass(frozen=True, slots=True)
class HostCareView:
    windows: tuple[WindowRow, ...]
    uptime: tuple[UptimeRow, ...]
    leaks: LeaksView | None  # None: nobody looks


async def host_care_view(house: House, desk: AlertDesk | None, janitor: Janitor | None) -> HostCareView:
    now = house.clock()
    records: Sequence[UptimeRecord] = () if desk is None else await desk.watch.uptime()
    leaks = None if janitor is None else leaks_view(await janitor.report(), now)
    return HostCareView(tuple(window_row(one, now) for one in house.maintenance.windows()), uptime_rows(records, now), leaks)


def window_row(window: Window, now: datetime) -> WindowRow:
    mark = Mark(_("Open"), "wait") if window.runs(now) else Mark(_("Planned"), "end")
    return WindowRow(window.id, window.node, mark, clock(window.start, now), clock(window.end, now), window.made_by, window.why)


def uptime_rows(records: Sequence[UptimeRecord], now: datetime) -> tuple[UptimeRow, ...]:
    return tuple(uptime_row(one, now) for one in records)


def uptime_row(record: UptimeRecord, now: datetime) -> UptimeRow:
    downtimes = tuple(
        DowntimeRow(clock(one.since, now), length((one.until or now) - one.since), one.why, one.planned)
        for one in record.downtimes[:DOWNTIMES_SHOWN]
    )
    planned = _("{length} planned").format(length=length(record.planned)) if record.planned >= WORTH_SAYING else ""
    unwatched = _("{length} not watched").format(length=length(record.unwatched)) if record.unwatched >= WORTH_SAYING else ""
    aside = tuple(words for words in (planned, unwatched) if words)
    return UptimeRow(record.node, f"{100 * record.part:.3f} %", length(now - record.since), aside, downtimes)


def leaks_view(report: LeakReport, now: datetime) -> LeaksView:
    mended = tuple((clock(event.at, now), event.why) for event in report.mended[:MENDED_SHOWN])
    return LeaksView(leaks_answer(report, now), tuple(leak_row(one, now) for one in report.sightings), mended)


def leaks_answer(report: LeakReport, now: datetime) -> str:
    if report.looked_at is None:
        return _("Nobody has looked yet: the first look is a minute after the start.")
    if not report.engine_answers:
        return _("The engine did not answer, so nothing is said of its containers.")
    if not report.sightings:
        return _("Nothing is held by nobody, as of {time}.").format(time=clock(report.looked_at, now))
    if report.repair is Repair.TELL:
        return _("It is only told of, as the settings say: see leaks.repair.")
    return _("What can be put right without harm to anybody is put right by itself; the rest says what to do.")


def leak_row(one: Sighting, now: datetime) -> LeakRow:
    if one.mending_since is not None:
        mark = Mark(_("Being put right"), "start")
    elif one.sure:
        mark = Mark(_("Sure"), "bad")
    else:
        mark = Mark(_("Seen {looks} of {needed} times").format(looks=one.looks, needed=LOOKS), "wait")
    return LeakRow(mark, one.sign.sentence, one.sign.todo, clock(one.since, now))
