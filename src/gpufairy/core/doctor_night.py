"""What the doctor's looks, one each night, make of each other: what newly fails, what came back, what is well again. Pure.

A check of which nothing could be found out stays what it was. A look that somebody asked for ends a trouble and begins none: whoever asked
has just been told.
"""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpufairy.core.doctor import Finding, Verdict

WELL = (Verdict.OK, Verdict.WARN, Verdict.SKIPPED)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A check that fails."""

    check: str
    about: str
    found: str
    since: datetime
    again: bool = False  # it had failed before, and was well in between


@dataclass(frozen=True, slots=True)
class Nights:
    """All that is known from the nights so far."""

    looked_at: datetime | None = None  # by night, last
    troubles: tuple[Trouble, ...] = ()
    once: frozenset[str] = frozenset()  # checks that ever failed

    @property
    def by_check(self) -> Mapping[str, Trouble]:
        return {one.check: one for one in self.troubles}


def after_night(before: Nights, findings: Iterable[Finding], now: datetime) -> Nights:
    kept = after_look(before, found := tuple(findings))
    known = kept.by_check
    new = [
        Trouble(one.check, one.about, one.found, now, one.check in before.once)
        for one in found
        if one.verdict is Verdict.BAD and one.check not in known
    ]
    troubles = (*kept.troubles, *new)
    return Nights(now, troubles, before.once | {one.check for one in troubles})


def after_look(before: Nights, findings: Iterable[Finding]) -> Nights:
    """What is well, or not looked at any more, is over; what still fails has the words of now."""
    found = {one.check: one for one in findings}
    gone = {check for check in before.by_check if check not in found or found[check].verdict in WELL}
    return replace(before, troubles=tuple(in_words_of(one, found[one.check]) for one in before.troubles if one.check not in gone))


def in_words_of(trouble: Trouble, found: Finding) -> Trouble:
    return replace(trouble, found=found.found) if found.verdict is Verdict.BAD else trouble


def began(before: Nights, after: Nights) -> list[str]:
    return sorted(after.by_check.keys() - before.by_check.keys())


def ended(before: Nights, after: Nights) -> list[str]:
    return sorted(before.by_check.keys() - after.by_check.keys())


def nights_to_plain(nights: Nights) -> dict[str, Any]:
    troubles = [
        {"check": one.check, "about": one.about, "found": one.found, "since": one.since.isoformat(), "again": one.again}
        for one in nights.troubles
    ]
    looked_at = None if nights.looked_at is None else nights.looked_at.isoformat()
    return {"looked_at": looked_at, "troubles": troubles, "once": sorted(nights.once)}


def nights_from_plain(plain: Mapping[str, Any]) -> Nights:
    """As the database has it: never a stranger's."""
    troubles = tuple(Trouble(**{**one, "since": datetime.fromisoformat(one["since"])}) for one in plain["troubles"])
    looked_at = None if plain["looked_at"] is None else datetime.fromisoformat(plain["looked_at"])
    return Nights(looked_at, troubles, frozenset(plain["once"]))
