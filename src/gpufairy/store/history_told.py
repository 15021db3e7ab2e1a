"""Told: which moments of a node are in the history already. A host tells of each moment once, however often and by whom it is sent.

Reports are compared with those that came of late; for older times, whose reports are gone, with how full the buckets are.
"""
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import Connection, bindparam, select

from gpufairy.core.series import Kind, Retention, Step
from gpufairy.store.history_arrival import Arrival
from gpufairy.store.history_blocks import BUCKETS_IN_BLOCK, TENTHS, Block, from_bytes
from gpufairy.store.history_fold import blocks_at
from gpufairy.store.history_reports import MICROS, Place
from gpufairy.store.rows import to_micros
from gpufairy.store.tables import reading_reports

SECOND_TELLING = 0.5  # the part of a report's time that was told before, from which on it is dropped; below that, the rest of it counts
REACH = 600 * MICROS  # longer reports are not looked for: none that comes every few seconds stands for so much


@dataclass(slots=True)
class Told:
    connection: Connection
    node: int  # its number
    keeps: Retention
    sent: set[int]  # in microseconds, as the next
    stretches: list[tuple[int, int]]  # when each ends and how long it is, sorted
    longest: int  # of them
    _blocks: dict[Place, Block | None] = field(default_factory=dict)

    def takes(self, arrival: Arrival) -> float | None:
        """The seconds that it counts for; None: its time was told before. What is taken counts as told from now on."""
        sent, end, length = to_micros(arrival.sent_at), to_micros(arrival.at), round(arrival.seconds * MICROS)
        told = self._told_within(end, length)
        if sent in self.sent or told > length * SECOND_TELLING or self._is_full(arrival):
            return None
        left = length - told
        self.sent.add(sent)
        insort(self.stretches, (end, left))
        self.longest = max(self.longest, left)
        return left / MICROS

    def _told_within(self, end: int, length: int) -> int:
        told, place = 0, bisect_left(self.stretches, (end - length, 0))
        while place < len(self.stretches) and self.stretches[place][0] < end + self.longest:
            other_end, other_length = self.stretches[place]
            told += max(0, min(end, other_end) - max(end - length, other_end - other_length))
            place += 1
        return min(told, length)

    def _is_full(self, arrival: Arrival) -> bool:
        age = arrival.arrived_at - arrival.at
        if age <= self.keeps.raw:
            return False  # whatever came of that time is still here as it came
        reaching = [step for step in self.keeps.steps if step.seconds >= arrival.seconds and (step.keep is None or age < step.keep)]
        step = [*reaching, self.keeps.steps[-1]][0]
        middle = to_micros(arrival.at - timedelta(seconds=arrival.seconds / 2)) // MICROS
        return self._seconds_in(middle, step) + arrival.seconds / 2 > step.seconds

    def _seconds_in(self, moment_s: int, step: Step) -> float:
        """What is told of the bucket in which that moment lies."""
        length = step.seconds * BUCKETS_IN_BLOCK
        place = Place(self.node, step.seconds, moment_s // length * length)
        if place not in self._blocks:
            found = blocks_at(self.connection, [place]).get(place)
            self._blocks[place] = None if found is None else from_bytes(Kind.NODE, found[1])
        block, bucket = self._blocks[place], (moment_s - place.start) // step.seconds
        if block is None or not block.first <= bucket < block.end:
            return 0.0
        return float(block.tenths[:, bucket - block.first].max()) / TENTHS


def told_of(connection: Connection, node: int, keeps: Retention, arrivals: Sequence[Arrival]) -> Told:
    """`arrivals`: of that node, which are to be compared."""
    sent = known_sent(connection, node, [to_micros(arrival.sent_at) for arrival in arrivals])
    ends, longest = [to_micros(arrival.at) for arrival in arrivals], round(max(arrival.seconds for arrival in arrivals) * MICROS)
    near = {"of_node": node, "since": min(ends) - longest, "until": max(ends) + REACH}
    stretches = [(row.at, (row.tenths or 0) * MICROS // TENTHS) for row in connection.execute(STRETCHES, near)]
    return Told(connection, node, keeps, sent, stretches, max((length for _, length in stretches), default=0))


def known_sent(connection: Connection, node: int, sent: Sequence[int]) -> set[int]:
    return {row.sent_at for row in connection.execute(SENT, {"of_node": node, "of_times": list(sent)})}


reports = reading_reports
SENT = select(reports.c.sent_at).where(
    reports.c.node == bindparam("of_node"), reports.c.sent_at.in_(bindparam("of_times", expanding=True))
)
STRETCHES = (
    select(reports.c.at, reports.c.tenths)
    .where(reports.c.node == bindparam("of_node"), reports.c.at >= bindparam("since"), reports.c.at <= bindparam("until"))
    .order_by(reports.c.at)
)
