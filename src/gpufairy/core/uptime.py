"""Uptime: when hosts were away, why, and what part of the time they were there. Reckoned from alerts of silence.

While the server itself was away nobody watched: that time is neither theirs to have been there nor to have been away.
"""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.alert import Alert
from gpufairy.core.maintenance import Window
from gpufairy.core.silence import Silence

BOOTED_BEFORE_S = 120.0  # of its silence: clocks and reports are not that exact
NOTICED_AFTER_S = 30.0  # at the most, from the last report to the alert
NOTHING = timedelta()


@dataclass(frozen=True, slots=True)
class Spell:
    """A time from when until when."""

    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return max(NOTHING, self.end - self.start)


@dataclass(frozen=True, slots=True)
class Downtime:
    node: str
    since: datetime
    until: datetime | None  # None: it lasts
    why: str
    planned: bool = False  # a window was open for all of it


@dataclass(frozen=True, slots=True)
class UptimeRecord:
    node: str
    since: datetime  # from when on it is counted
    part: float  # 0 to 1, of the time in which it was watched; what was planned does not count against it
    downtimes: tuple[Downtime, ...]  # the newest first
    planned: timedelta = NOTHING  # away in a window
    unwatched: timedelta = NOTHING  # the server itself was away


@dataclass(frozen=True, slots=True)
class Back:
    """What a host tells of itself when it is back. None or empty: not known."""

    up_s: float | None = None  # since it was started
    boot_id: str = ""
    boot_id_before: str = ""
    agent_up_s: float | None = None


def why_away(alert: Alert, back: Back, silences: Iterable[Silence], now: datetime) -> str:
    """Of a host that is back."""
    window = next((one for one in silences if one.fits(alert) and one.start <= now and alert.since < one.end), None)
    if window is not None:
        return f"it is back; maintenance by {window.made_by}: {window.why}"
    away_s = (now - alert.since).total_seconds()
    known = bool(back.boot_id and back.boot_id_before)
    if (known and back.boot_id != back.boot_id_before) or (not known and back.up_s is not None and back.up_s < away_s + BOOTED_BEFORE_S):
        return "it is back; the host was started anew"
    if not known and back.up_s is None:
        return "it is back"
    if back.agent_up_s is None:
        return "it is back; its agent or the network was away, the host itself ran on"
    if back.agent_up_s < away_s + NOTICED_AFTER_S:
        return "it is back; its agent had stopped, the host itself ran on"
    return "it is back; the network was away, the host and its agent ran on"


def downtimes_of(alerts: Iterable[Alert]) -> list[Downtime]:
    return [Downtime(one.node, one.since, one.resolved_at, one.ended_why or one.sentence) for one in alerts]


def record_of(
    node: str, downtimes: Sequence[Downtime], since: datetime, now: datetime, *,
    unwatched: Iterable[Spell] = (), windows: Iterable[Window] = (),
) -> UptimeRecord:  # fmt: skip
    whole = Spell(since, max(now, since))
    blind = merged(within(unwatched, whole))
    planned = merged(within((Spell(one.start, one.end) for one in windows if one.node == node), whole))
    own = [one for one in downtimes if one.node == node and (one.until or now) > since]
    away = without(merged(within((Spell(one.since, one.until or now) for one in own), whole)), blind)
    excused = sum_of(both(away, planned))
    watched = max(whole.length - sum_of(blind), timedelta(seconds=1))
    told = tuple(sorted((judged(one, planned, now) for one in own), key=lambda one: one.since, reverse=True))
    return UptimeRecord(node, since, max(0.0, 1 - (sum_of(away) - excused) / watched), told, excused, sum_of(blind))


def judged(downtime: Downtime, planned: Sequence[Spell], now: datetime) -> Downtime:
    spell = Spell(downtime.since, downtime.until or now)
    covered = any(one.start <= spell.start and spell.end <= one.end for one in planned)
    return Downtime(downtime.node, downtime.since, downtime.until, downtime.why, planned=covered)


def within(spells: Iterable[Spell], whole: Spell) -> list[Spell]:
    return both(list(spells), [whole])


def merged(spells: Iterable[Spell]) -> list[Spell]:
    """In order, none touching another."""
    found: list[Spell] = []
    for one in sorted(spells, key=lambda spell: spell.start):
        if found and one.start <= found[-1].end:
            found[-1] = Spell(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def both(some: Sequence[Spell], others: Sequence[Spell]) -> list[Spell]:
    shared = (Spell(max(one.start, other.start), min(one.end, other.end)) for one in some for other in others)
    return [spell for spell in shared if spell.start < spell.end]


def without(spells: Sequence[Spell], others: Sequence[Spell]) -> list[Spell]:
    """`others`: merged."""
    left = list(spells)
    for other in others:
        cut = ((Spell(one.start, min(one.end, other.start)), Spell(max(one.start, other.end), one.end)) for one in left)
        left = [part for parts in cut for part in parts if part.start < part.end]
    return left


def sum_of(spells: Iterable[Spell]) -> timedelta:
    return sum((one.length for one in spells), NOTHING)
