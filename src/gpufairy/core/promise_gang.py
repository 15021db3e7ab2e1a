"""When all of a gang could sit down together: walked from moment to moment over the nodes that may take any of it by then.

How many each node takes is counted anew only when something happens there, so that a large cluster is no long walk.
"""
import heapq
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from gpufairy.core.booking import OPEN
from gpufairy.core.fit import fit, seats_together
from gpufairy.core.hope import Hope
from gpufairy.core.queue import shape, sitting
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat
from gpufairy.core.timeline import NEVER, ClosedAt, Timeline

Found = tuple[datetime, tuple[Seat, ...], Mapping[str, Room]]


def together(
    requests: Sequence[Request], hopes: Iterable[tuple[Hope, Timeline]], closed_at: ClosedAt, shut: Mapping[str, str] = OPEN
) -> Found | None:
    """At the first moment at which all of them fit. What happens between now and then to those who hold seats is as for one alone."""
    walk = Walk(requests, hopes)
    while (when := walk.next_moment()) is not None:
        if walk.room_for < len(requests):
            continue
        rooms = walk.rooms_at(when)
        seats = seats_together(requests, rooms, {**(OPEN if when == NEVER else closed_at(when)), **shut})
        if seats is not None:
            return when, tuple(seats), {seat.node: rooms[seat.node] for seat in seats}
    return None


class Walk:
    """Over the moments of all nodes, in order."""

    def __init__(self, requests: Sequence[Request], hopes: Iterable[tuple[Hope, Timeline]]) -> None:
        self._requests = requests
        self._alike = len({sitting(shape(request)) for request in requests}) == 1  # else hopes are those of the first alone
        self._hopes = iter(hopes)
        self._upcoming = next(self._hopes, None)
        self._lines: list[Timeline] = []
        self._moments: list[tuple[datetime, int]] = []  # a heap: when something happens on which of the lines
        self._takes: list[int] = []  # of each line: how many of them there is room for
        self.room_for = 0  # in all

    def next_moment(self) -> datetime | None:
        times = [self._moments[0][0]] if self._moments else []
        times += [] if self._upcoming is None else [self._upcoming[0].when]
        if not times:
            return None
        when, changed = min(times), set()
        while self._upcoming is not None and (self._upcoming[0].when <= when or not self._alike):
            changed.add(self._join(self._upcoming[1], when))
            self._upcoming = next(self._hopes, None)
        while self._moments and self._moments[0][0] <= when:
            changed.add(heapq.heappop(self._moments)[1])
        for number in changed:
            self._count_anew(number, when)
        return when

    def rooms_at(self, when: datetime) -> dict[str, Room]:
        open_now = (line for line, takes in zip(self._lines, self._takes, strict=True) if takes)
        return {line.node: line.moments[line.last_at(when)].room.copy() for line in open_now}

    def _join(self, line: Timeline, when: datetime) -> int:
        number = len(self._lines)
        self._lines.append(line)
        self._takes.append(0)
        for later in {moment.when for moment in line.moments if moment.when > when}:
            heapq.heappush(self._moments, (later, number))
        return number

    def _count_anew(self, number: int, when: datetime) -> None:
        line = self._lines[number]
        takes = how_many(self._requests, line.moments[line.last_at(when)].room) if self._alike else len(self._requests)
        self.room_for += takes - self._takes[number]
        self._takes[number] = takes


def how_many(requests: Sequence[Request], room: Room) -> int:
    left = room.copy()
    for number, request in enumerate(requests):
        answer = fit(request, left)
        if not isinstance(answer, Seat):
            return number
        left.take(answer)
    return len(requests)
