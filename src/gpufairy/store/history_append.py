"""Writing a report down, inside the writer's transaction. Called by history.py alone."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, insert, select

from gpufairy.core.series import Kind, Point, Subject
from gpufairy.store.history_reports import pack
from gpufairy.store.rows import to_micros
from gpufairy.store.tables import reading_folds, reading_reports, reading_subjects

MOST_KNOWN = 100_000  # subjects kept in memory; sessions come and go, so it would grow for ever


@dataclass(frozen=True, slots=True)
class Arrival:
    node: str
    at: datetime
    arrived_at: datetime
    seconds: float
    points: tuple[Point, ...]


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


def write_report(connection: Connection, arrival: Arrival, known: Known) -> tuple[bool, dict[Subject, int]]:
    """Whether it was new; and the numbers of its subjects."""
    node = Subject(Kind.NODE, arrival.node, arrival.node)
    numbers = numbered(connection, [node, *(point.subject for point in arrival.points)], known)
    at = to_micros(arrival.at)
    if connection.execute(SAME_REPORT, {"of_node": numbers[node], "of_time": at}).first() is not None:
        return False, numbers
    body = pack([(numbers[point.subject], point) for point in arrival.points], arrival.seconds)
    row = {"node": numbers[node], "at": at, "arrived_at": to_micros(arrival.arrived_at), "body": body}
    connection.execute(ADD_REPORT, [row])
    return True, numbers


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
SAME_REPORT = select(reading_reports.c.number).where(
    reading_reports.c.node == bindparam("of_node"), reading_reports.c.at == bindparam("of_time")
)
ADD_REPORT, ADD_FOLD = insert(reading_reports), insert(reading_folds)
