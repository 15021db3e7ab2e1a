"""Leaks: what is held and nobody has. A sign counts as found when it was seen in several looks in turn, and never at first sight.

Where nobody answered there is no sign, and none that was found goes away. What the signs are is in leak_signs.py.
"""
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpufairy.core.alert_look import Leak
from gpufairy.core.workload import WorkloadId

LOOKS = 3  # in turn, a minute apart: what starts or ends takes seconds, and a driver lists a process a moment longer than it lives
LEAST_APART = timedelta(seconds=45)  # of two looks that count as two
NOT_KNOWN_FOR = timedelta(minutes=30)  # nothing was heard of its host for so long: what was found there says nothing of now


class LeakKind(StrEnum):
    SEAT = "seat without container"
    WORKLOAD = "container without seat"
    UNREADABLE = "container without readable labels"
    MEMORY = "memory held by nobody"
    GPU_SHUT = "container that lost its GPU"
    HOLDER = "process of a session that is over"
    STUCK = "session that cannot be ended"


class Repair(StrEnum):
    """`MEND`: what can be put right without harm to anybody who is alive, is. `TELL`: nothing is touched."""

    TELL = "tell"
    MEND = "mend"


# The rest is told alone: no process of an outsider, and nothing of a session that lives, is ever ended for being in the way.
MENDED = frozenset({LeakKind.SEAT, LeakKind.WORKLOAD})


@dataclass(frozen=True, slots=True)
class Sign:
    """What one look saw. `thing` names it for people, and with its kind for good."""

    kind: LeakKind
    thing: str
    node: str
    sentence: str
    todo: str
    session_id: str = ""
    workload: WorkloadId | None = None
    device: str = ""  # the UUID of the GPU that it is about

    @property
    def key(self) -> "Key":
        return self.kind, self.thing


Key = tuple[LeakKind, str]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A sign over time."""

    sign: Sign
    since: datetime  # when it was first seen
    seen_at: datetime
    looks: int = 1
    mending_since: datetime | None = None  # somebody was told to put it right

    @property
    def sure(self) -> bool:
        return self.looks >= (1 if self.sign.kind is LeakKind.STUCK else LOOKS)  # who is stuck was waited for already


@dataclass(frozen=True, slots=True)
class Looked:
    """`sightings`: all that there are now, sure or not."""

    sightings: Mapping[Key, Sighting]
    found: tuple[Sighting, ...] = ()  # sure since this look
    over: tuple[Sighting, ...] = ()  # were sure, and are no more


def follow(before: Mapping[Key, Sighting], signs: Iterable[Sign], judged: Container[Key], now: datetime) -> Looked:
    """`judged`: of which somebody answered in this look."""
    sightings = {sign.key: seen_again(before.get(sign.key), sign, now) for sign in signs}
    found = tuple(one for key, one in sightings.items() if one.sure and (key not in before or not before[key].sure))
    over = []
    for key, one in before.items():
        if key in sightings or not one.sure:  # a guess that is not seen in turn is none
            continue
        if key in judged or now - one.seen_at >= NOT_KNOWN_FOR:
            over.append(one)
        else:
            sightings[key] = one
    return Looked(sightings, found, tuple(over))


def seen_again(before: Sighting | None, sign: Sign, now: datetime) -> Sighting:
    if before is None:
        return Sighting(sign, now, now)
    if now - before.seen_at < LEAST_APART:
        return replace(before, sign=sign)
    return replace(before, sign=sign, seen_at=now, looks=before.looks + 1)


def to_mend(sightings: Iterable[Sighting], repair: Repair) -> list[Sighting]:
    return [one for one in sightings if one.sure and one.sign.kind in MENDED] if repair is Repair.MEND else []


def ordered(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Those that are sure first, the oldest of them first."""
    return sorted(sightings, key=lambda one: (not one.sure, one.since, one.sign.key))


def leaks_told(sightings: Iterable[Sighting]) -> Sequence[Leak]:
    """As alerts take them."""
    return [Leak(one.sign.thing, one.sign.node, one.sign.sentence, one.sign.todo) for one in sightings if one.sure]


def over_words(sighting: Sighting) -> str:
    return f"put right: {sighting.sign.sentence}" if sighting.mending_since is not None else f"over: {sighting.sign.sentence}"
