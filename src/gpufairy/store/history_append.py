"""Writing reports down, inside the writer's transaction. Called by history.py alone."""
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from gpufairy.core.series import Kind, Retention, Subject
from gpufairy.store.history_arrival import Arrival
from gpufairy.store.history_reports import pack, tenths_of
from gpufairy.store.history_told import known_sent, told_of
from gpufairy.store.rows import to_micros
from gpufairy.store.tables import reading_folds, reading_reports, reading_subjects

MOST_KNOWN = 100_000  # subjects kept in memory; sessions come and go, so it would grow for ever


class Known:
    """Numbers of subjects. Only of what was committed: a transaction that is undone must leave no number here that nobody has."""

    def __init__(self) -> None:
        self._numbers: dict[Subject, int] = {}

    def get(self, subject: Subject) -> int | None:
        return self._numbers.get(subject)

    def remember(self, numbers: Mapping[Subject, int]) -> None:
        if len(self._numbers) + len(numbers) > MOST_KNOWN:
            self._numbers = {}
        self._numbers.update(numbers)


def write_reports(
    connection: Connection, arrivals: Sequence[Arrival], known: Known, keeps: Retention
) -> tuple[list[bool], dict[Subject, int]]:
    """Of one node. Which were new; and the numbers of their subjects."""
    node = Subject(Kind.NODE, arrivals[0].node, arrivals[0].node)
    numbers = numbered(connection, [node], known)
    told = told_of(connection, numbers[node], keeps, arrivals)
    taken = [told.takes(arrival) for arrival in arrivals]
    new = [(arrival, seconds) for arrival, seconds in zip(arrivals, taken, strict=True) if seconds is not None]
    numbers |= numbered(connection, [point.subject for arrival, _ in new for point in arrival.points], known)
    if new:
        connection.execute(ADD_REPORT, [row_of(numbers[node], arrival, seconds, numbers) for arrival, seconds in new])
    return [seconds is not None for seconds in taken], numbers


def row_of(node: int, arrival: Arrival, seconds: float, numbers: Mapping[Subject, int]) -> dict[str, Any]:
    return {
        "node": node, "at": to_micros(arrival.at), "sent_at": to_micros(arrival.sent_at), "arrived_at": to_micros(arrival.arrived_at),
        "tenths": tenths_of(seconds), "body": pack([(numbers[point.subject], point) for point in arrival.points], seconds),
    }  # fmt: skip


def sent_before(connection: Connection, node: str, sent: Sequence[datetime]) -> set[datetime]:
    """Of these times, by the clock of that host, the ones whose reports are here."""
    number = connection.execute(NUMBER, {"of_kind": Kind.NODE.value, "of_name": node, "of_node": node}).scalar()
    found = set() if number is None else known_sent(connection, int(number), [to_micros(at) for at in sent])
    return {at for at in sent if to_micros(at) in found}


def numbered(connection: Connection, subjects: Iterable[Subject], known: Known) -> dict[Subject, int]:
    numbers: dict[Subject, int] = {}
    for subject in dict.fromkeys(subjects):
        number = known.get(subject)
        numbers[subject] = _number_in(connection, subject) if number is None else number
    return numbers


def _number_in(connection: Connection, subject: Subject) -> int:
    wanted = {"of_kind": subject.kind.value, "of_name": subject.name, "of_node": subject.node}
    found = connection.execute(NUMBER, wanted).scalar()
    if found is not None:
        return int(found)
    row = {"kind": subject.kind.value, "name": subject.name, "node": subject.node}
    number = int(connection.execute(insert(reading_subjects).values(row).returning(reading_subjects.c.number)).scalar_one())
    if subject.kind is Kind.NODE:
        connection.execute(ADD_FOLD, [{"node": number, "report": 0}])
    return number


NUMBER = select(reading_subjects.c.number).where(
    reading_subjects.c.kind == bindparam("of_kind"),
    reading_subjects.c.name == bindparam("of_name"),
    reading_subjects.c.node == bindparam("of_node"),
)
ADD_REPORT, ADD_FOLD = insert(reading_reports), insert(reading_folds)
