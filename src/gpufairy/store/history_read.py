"""Reading the history: blocks, and on top of them the reports that are not folded yet. Called by history.py alone."""
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import isnan
from typing import Any, TypeAlias

import numpy as np
from sqlalchemy import Connection, bindparam, select

from gpufairy.core.series import COLUMNS, RAW, Floats, Kind, Series, SeriesColumn, Subject, Total
from gpufairy.store.history_blocks import BUCKETS_IN_BLOCK, TENTHS, Block, Whole, from_bytes, merged, with_max
from gpufairy.store.history_reports import MICROS, UNKNOWN, Readings, blocks_of, unpack
from gpufairy.store.rows import chunks, from_micros, to_micros
from gpufairy.store.tables import reading_blocks, reading_folds, reading_reports, reading_subjects

RAW_TOGETHER_S = 10  # of subjects on several nodes, whose reports come at different moments, even raw readings are put into such steps
SUBJECTS_ASKED = 500  # at once
GAP = 2.5  # reports further apart than so many of their own lengths have a gap between them


@dataclass(frozen=True, slots=True)
class Asked:
    kind: Kind
    name: str
    since: datetime
    until: datetime
    step_s: int
    node: str | None = None

    @property
    def first(self) -> int:
        """Of the buckets, counted since 1970."""
        return to_micros(self.since) // (self.step_s * MICROS)

    @property
    def last(self) -> int:
        return max(self.first, (to_micros(self.until) - 1) // (self.step_s * MICROS))


Piece: TypeAlias = tuple[int, Block]  # the bucket since 1970 that the block counts from, and the block


@dataclass(frozen=True, slots=True)
class Found:
    """A subject's row."""

    number: int
    subject: Subject


def series_of(connection: Connection, asked: Asked) -> Series:
    found = [one for one in subjects_of(connection, asked.kind, [asked.name]) if asked.node in (None, one.subject.node)]
    nodes = tuple(one.subject.node for one in found)
    if asked.step_s == RAW and len(found) <= 1:
        return raw_series(connection, asked, found)
    if asked.step_s == RAW:
        asked = Asked(asked.kind, asked.name, asked.since, asked.until, RAW_TOGETHER_S, asked.node)
    pieces = list(pieces_of(connection, asked, found).values())
    if not pieces:
        return Series(asked.kind, asked.name, nodes, asked.step_s)
    together = summed if asked.kind is Kind.USER else joined
    times = [from_micros(bucket * asked.step_s * MICROS) for bucket in range(asked.first, asked.last + 1)]
    return Series(asked.kind, asked.name, nodes, asked.step_s, times, columns_of(asked.kind, *together(asked, pieces)))


def grids_of(connection: Connection, asked: Asked, names: Sequence[str]) -> dict[str, dict[str, Floats]]:
    """Means of each column of each name, a value for each step that is asked for; NaN where not known. Without readings, without a row."""
    found = subjects_of(connection, asked.kind, names)
    pieces, parts = pieces_of(connection, asked, found), dict[str, list[Piece]]()
    for one in found:
        parts.setdefault(one.subject.name, []).extend(pieces.get(one.number, ()))
    return {name: _grid(asked, of_it) for name, of_it in parts.items() if of_it}


def _grid(asked: Asked, pieces: Sequence[Piece]) -> dict[str, Floats]:
    means, _ = joined(asked, [pieces])
    return {column.name: means[place] * column.grain for place, column in enumerate(COLUMNS[asked.kind])}


def totals_of(connection: Connection, asked: Asked, names: Sequence[str] | None) -> dict[Subject, dict[str, Total]]:
    found = subjects_of(connection, asked.kind, names)
    subject_of = {one.number: one.subject for one in found}
    return {subject_of[number]: total_of(asked, pieces) for number, pieces in pieces_of(connection, asked, found).items()}


def total_of(asked: Asked, pieces: Sequence[Piece]) -> dict[str, Total]:
    columns = COLUMNS[asked.kind]
    values, tenths = np.zeros(len(columns), np.int64), np.zeros(len(columns), np.int64)
    for begin, block in pieces:
        here = slice(max(0, asked.first - begin - block.first), max(0, asked.last + 1 - begin - block.first))
        values += block.sums[:, here].sum(axis=1)
        tenths += block.tenths[:, here].sum(axis=1)
    return {
        column.name: Total(float(values[place]) * column.grain / TENTHS, float(tenths[place]) / TENTHS)
        for place, column in enumerate(columns)
    }


def subjects_of(connection: Connection, kind: Kind, names: Sequence[str] | None) -> list[Found]:
    if names is None:
        rows = list(connection.execute(ALL_OF_KIND, {"of_kind": kind.value}))
    else:
        rows = [row for some in chunks(names) for row in connection.execute(NAMED, {"of_kind": kind.value, "of_names": some})]
    return [Found(row.number, Subject(kind, row.name, row.node)) for row in rows]


def pieces_of(connection: Connection, asked: Asked, found: Sequence[Found]) -> Mapping[int, list[Piece]]:
    """All that is known of that stretch, by the subject's number."""
    pieces: dict[int, list[Piece]] = {}
    marks = marks_of(connection, found)
    while found:
        for number, piece in chain(folded_pieces(connection, asked, found), waiting_pieces(connection, asked, found, marks)):
            pieces.setdefault(number, []).append(piece)
        # A fold in between would have been seen twice, or not at all.
        before, marks = marks, marks_of(connection, found)
        if marks == before:
            break
        pieces = {}
    return pieces


def marks_of(connection: Connection, found: Iterable[Found]) -> dict[int, int]:
    """By the number of each node that they are on: the last report that is folded."""
    nodes = list(dict.fromkeys(one.subject.node for one in found))
    rows = [row for some in chunks(nodes) for row in connection.execute(MARKS, {"of_names": some})]
    return {row.node: row.report for row in rows}


def folded_pieces(connection: Connection, asked: Asked, found: Sequence[Found]) -> Iterator[tuple[int, Piece]]:
    length = asked.step_s * BUCKETS_IN_BLOCK
    start = asked.first * asked.step_s // length * length
    numbers = [one.number for one in found]
    for begin in range(0, len(numbers), SUBJECTS_ASKED):
        within: dict[str, Any] = {"of_step": asked.step_s, "since": start, "until": asked.last * asked.step_s}
        for row in connection.execute(BLOCKS, {**within, "of_subjects": numbers[begin : begin + SUBJECTS_ASKED]}):
            yield row.subject, (row.start // asked.step_s, from_bytes(asked.kind, row.body))


def waiting_pieces(connection: Connection, asked: Asked, found: Sequence[Found], marks: Mapping[int, int]) -> Iterator[tuple[int, Piece]]:
    readings = waiting(connection, asked.kind, found, marks)
    for place, block in blocks_of(readings, asked.step_s) if readings is not None else ():
        yield place.subject, (place.start // asked.step_s, block)


def waiting(connection: Connection, kind: Kind, found: Sequence[Found], marks: Mapping[int, int]) -> Readings | None:
    """What is not folded yet, of these subjects."""
    reports = [
        (row.at, row.body) for node, mark in marks.items() for row in connection.execute(REPORTS_AFTER, {"of_node": node, "after": mark})
    ]
    readings = unpack(reports).get(kind)
    return None if readings is None else readings.only([one.number for one in found])


def dense_of(asked: Asked, pieces: Iterable[Piece]) -> Block:
    """One block that spans all that is asked, and nothing else."""
    columns, count = len(COLUMNS[asked.kind]), asked.last - asked.first + 1
    span = Block(0, *(np.zeros((rows, count), np.int64) for rows in (columns, columns, len(with_max(asked.kind)))))
    for begin, block in pieces:
        add_piece(asked, span, begin, block)
    return span


def add_piece(asked: Asked, span: Block, begin: int, piece: Block) -> None:
    """In place: what of the piece lies in the span."""
    first, end = max(asked.first, begin + piece.first), min(asked.last + 1, begin + piece.end)
    if first >= end:
        return
    there, here = slice(first - asked.first, end - asked.first), slice(first - begin - piece.first, end - begin - piece.first)
    cut = Block(0, piece.sums[:, here], piece.tenths[:, here], piece.peaks[:, here])
    sum_of = merged(asked.kind, Block(0, span.sums[:, there], span.tenths[:, there], span.peaks[:, there]), cut)
    span.sums[:, there], span.tenths[:, there], span.peaks[:, there] = sum_of.sums, sum_of.tenths, sum_of.peaks


Means: TypeAlias = tuple[Any, Any]  # means and maxima in grains, NaN where not known


def joined(asked: Asked, parts: Iterable[Sequence[Piece]]) -> Means:
    """One thing that was now on this node, now on that."""
    block = dense_of(asked, chain.from_iterable(parts))
    return means_of(asked.kind, block)


def summed(asked: Asked, parts: Iterable[Sequence[Piece]]) -> Means:
    """A user on several nodes: what is known of each, added up; the maximum of each as well, since nobody knows whether they met."""
    means: Any = np.nan
    peaks: Any = np.nan
    for part in parts:
        here, highest = means_of(asked.kind, dense_of(asked, part))
        means, peaks = _nan_sum(means, here), _nan_sum(peaks, highest)
    return means, peaks


def means_of(kind: Kind, block: Block) -> Means:
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(block.tenths > 0, block.sums / block.tenths, np.nan)
    return means, np.where(block.tenths[with_max(kind)] > 0, block.peaks, np.nan)


def _nan_sum(one: Any, other: Any) -> Any:
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))


def columns_of(kind: Kind, means: Any, peaks: Any) -> dict[str, SeriesColumn]:
    columns, peaked = {}, with_max(kind)
    for place, column in enumerate(COLUMNS[kind]):
        highest = plain(peaks[peaked.index(place)] * column.grain) if column.has_max else None
        columns[column.name] = SeriesColumn(column.unit, plain(means[place] * column.grain), highest)
    return columns


def plain(values: Any) -> list[float | None]:
    return [None if isnan(value) else round(value, 4) for value in values.tolist()]


def raw_series(connection: Connection, asked: Asked, found: Sequence[Found]) -> Series:
    """Every report by itself, at the time it was made, folded or not."""
    nothing = Series(asked.kind, asked.name, tuple(one.subject.node for one in found), RAW)
    within = {"since": to_micros(asked.since), "until": to_micros(asked.until)}
    nodes = list(marks_of(connection, found))
    reports = [(row.at, row.body) for node in nodes for row in connection.execute(REPORTS_WITHIN, {"of_node": node, **within})]
    readings = unpack(reports).get(asked.kind)
    readings = None if readings is None else readings.only([one.number for one in found])
    if readings is None or not len(readings.ats):
        return nothing
    ats, values = with_gaps(readings)
    peaks = values[with_max(asked.kind)]
    return Series(asked.kind, asked.name, nothing.nodes, RAW, [from_micros(int(at)) for at in ats], columns_of(asked.kind, values, peaks))


def with_gaps(readings: Readings) -> tuple[Whole, Any]:
    """Where reports are missing, one moment of which nothing is known: else a chart would draw a line across."""
    lengths = readings.tenths * (MICROS // TENTHS)
    ends = readings.ats + lengths // 2
    values = np.where(readings.values == UNKNOWN, np.nan, readings.values).T
    gaps = np.flatnonzero(np.diff(ends) > GAP * lengths[1:])
    return np.insert(ends, gaps + 1, ends[gaps] + lengths[gaps]), np.insert(values, gaps + 1, np.nan, axis=1)


subjects, blocks, reports, folds = reading_subjects, reading_blocks, reading_reports, reading_folds
ALL_OF_KIND = select(subjects).where(subjects.c.kind == bindparam("of_kind")).order_by(subjects.c.number)
NAMED = ALL_OF_KIND.where(subjects.c.name.in_(bindparam("of_names", expanding=True)))
MARKS = (
    select(folds.c.node, folds.c.report)
    .join(subjects, subjects.c.number == folds.c.node)
    .where(subjects.c.kind == Kind.NODE.value, subjects.c.name.in_(bindparam("of_names", expanding=True)))
    .order_by(folds.c.node)
)
BLOCKS = select(blocks.c.subject, blocks.c.start, blocks.c.body).where(
    blocks.c.subject.in_(bindparam("of_subjects", expanding=True)),
    blocks.c.step_s == bindparam("of_step"),
    blocks.c.start >= bindparam("since"),
    blocks.c.start <= bindparam("until"),
)
REPORTS_AFTER = select(reports.c.at, reports.c.body).where(
    reports.c.node == bindparam("of_node"), reports.c.number > bindparam("after")
)
REPORTS_WITHIN = (
    select(reports.c.at, reports.c.body)
    .where(reports.c.node == bindparam("of_node"), reports.c.at >= bindparam("since"), reports.c.at <= bindparam("until"))
    .order_by(reports.c.at)
)
