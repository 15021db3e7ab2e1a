"""Forecast: when the waiting may start, in what range, and who has to leave for it.

Several courses of things are gone through (course.py), with stays drawn from past runs, and limits where there is nothing else to go by.
Never a guess: where it hangs on somebody of whom neither tells anything, it is None.
"""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.cluster import Cluster
from gpufairy.core.course import Course, Found, Ground
from gpufairy.core.promise import PATIENCE
from gpufairy.core.room import Room
from gpufairy.core.session import Seat, Session
from gpufairy.core.timeline import NEVER, Leaving

# How many courses are gone through, as long as those who wait, times the nodes on which each is looked for, are no more than so many:
# about 0.1 s on one core. Of more than the last, only the first in line are forecast.
COURSES = ((11, 40), (5, 120), (3, 300), (1, 1200))
MOST_LOOKED_AT = 16  # nodes, for one who waits: of more, nearly all are passed over at a glance
DEEPEST = 120  # in line: further back a forecast says little


@dataclass(frozen=True, slots=True)
class Start:
    """When one who waits may start. `None` for a time: nobody can tell."""

    typical: datetime | None
    low: datetime | None = None
    high: datetime | None = None  # None beside a typical one: it may also be later than anybody can tell
    seat: Seat | None = None  # the one it would have at the typical time
    leavers: tuple[Leaving, ...] = ()  # who has to leave it by then, the last one last
    over: str = ""  # the quota that it waits for beside the room, in words
    courses: int = 1  # it is told from so many


def forecast(cluster: Cluster, rooms: Mapping[str, Room], order: Sequence[Session], now: datetime) -> dict[str, Start]:
    """Of the sessions in `order`, each given its seat in turn, with those who start together with it."""
    ground = Ground(cluster, rooms, now)
    of = courses_for(len(order), len(rooms)) if cluster.run_times.tells else 1
    courses = [Course(ground, number, of) for number in range(of)]
    starts: dict[str, Start] = {}
    patient = False
    for session in order:
        patient = patient or now - session.submitted_at > PATIENCE
        if session.id in starts:
            continue  # with the rest of its gang
        group = cluster.together(session)
        start = start_in(courses, group, [course.seat(group, patient) for course in courses])
        starts.update((member.id, start) for member in group)
    return starts


def depth(nodes: int) -> int:
    """How far down the line forecasts are made."""
    return min(DEEPEST, COURSES[-1][1] // max(1, min(nodes, MOST_LOOKED_AT)))


def courses_for(waiting: int, nodes: int) -> int:
    looks = waiting * min(nodes, MOST_LOOKED_AT)
    return next((courses for courses, most in COURSES if looks <= most), COURSES[-1][0])


def start_in(courses: Sequence[Course], group: Sequence[Session], found: Sequence[Found | None]) -> Start:
    in_time = sorted((NEVER if one is None else one.when, number) for number, one in enumerate(found))
    middle, number = in_time[len(in_time) // 2]
    usual = found[number]
    seat = None if usual is None else usual.seat
    leavers = () if seat is None else courses[number].leavers(group, seat, middle)
    low, high = in_time[0][0], in_time[-1][0]
    return Start(told(middle), told(low), told(high), seat, leavers, "" if usual is None else usual.over, len(courses))


def told(when: datetime) -> datetime | None:
    return None if when == NEVER else when
