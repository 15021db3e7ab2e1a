"""Reports as they came, packed; and many of them as arrays, sorted into buckets. Nothing here knows of the database."""
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpufairy.core.series import COLUMNS, LARGEST_GRAINS, LONGEST_SECONDS, Kind, Point
from gpufairy.store.history_blocks import BUCKETS_IN_BLOCK, TENTHS, Block, Whole, with_max

FORM = 1
HEAD = struct.Struct("<BH")  # form, tenths of a second that it stands for
PART = struct.Struct("<BH")  # columns, points; one part for each kind, in their order
UNKNOWN = -LARGEST_GRAINS - 1
KINDS = tuple(Kind)
MICROS = 1_000_000


def pack(points: Sequence[tuple[int, Point]], seconds: float) -> bytes:
    """With each point the number of its subject."""
    parts = [HEAD.pack(FORM, tenths_of(seconds))]
    for kind in KINDS:
        mine = [(number, point) for number, point in points if point.subject.kind is kind]
        columns = COLUMNS[kind]
        parts.append(PART.pack(len(columns), len(mine)))
        grains = [
            UNKNOWN if value is None else min(round(value / column.grain), LARGEST_GRAINS)
            for _, point in mine
            for column, value in zip(columns, point.values, strict=True)
        ]
        parts.append(struct.pack(f"<{len(mine)}i{len(grains)}i", *(number for number, _ in mine), *grains))
    return zlib.compress(b"".join(parts), 1)


def tenths_of(seconds: float) -> int:
    return max(1, round(min(seconds, LONGEST_SECONDS) * TENTHS))


@dataclass(frozen=True, slots=True)
class Readings:
    """Points of one kind out of many reports, sorted by subject and time. Columns beside each other: `values` is points x columns."""

    kind: Kind
    subjects: Whole
    ats: Whole  # microseconds since 1970: the middle of the time it stands for
    tenths: Whole
    values: Whole  # grains; UNKNOWN

    def only(self, numbers: Sequence[int]) -> "Readings":
        mine = np.isin(self.subjects, numbers)
        return Readings(self.kind, self.subjects[mine], self.ats[mine], self.tenths[mine], self.values[mine])


def unpack(reports: Iterable[tuple[int, bytes]]) -> Mapping[Kind, Readings]:
    """Of reports, each with its time in microseconds."""
    found: dict[Kind, list[tuple[Whole, int, int, Whole]]] = {kind: [] for kind in KINDS}
    for at, packed in reports:
        body = zlib.decompress(packed)
        _, tenths = HEAD.unpack_from(body)
        middle, offset = at - tenths * MICROS // TENTHS // 2, HEAD.size
        for kind in KINDS:
            columns, count = PART.unpack_from(body, offset)
            offset += PART.size
            if count:
                numbers = np.frombuffer(body, "<i4", count * (columns + 1), offset)
                offset += numbers.nbytes
                found[kind].append((numbers[:count], middle, tenths, numbers[count:].reshape(count, columns)))
    return {kind: _sorted(kind, parts) for kind, parts in found.items() if parts}


def _sorted(kind: Kind, parts: Sequence[tuple[Whole, int, int, Whole]]) -> Readings:
    counts = [len(numbers) for numbers, _, _, _ in parts]
    subjects = np.concatenate([numbers for numbers, _, _, _ in parts]).astype(np.int64)
    ats = np.repeat(np.array([at for _, at, _, _ in parts], np.int64), counts)
    tenths = np.repeat(np.array([tenths for _, _, tenths, _ in parts], np.int64), counts)
    values = np.full((len(subjects), len(COLUMNS[kind])), UNKNOWN, np.int64)
    row = 0
    for numbers, _, _, grains in parts:
        values[row : row + len(numbers), : grains.shape[1]] = grains
        row += len(numbers)
    order = np.lexsort((ats, subjects))
    return Readings(kind, subjects[order], ats[order], tenths[order], values[order])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block belongs."""

    subject: int
    step_s: int
    start: int  # seconds since 1970


def blocks_of(readings: Readings, step_s: int) -> Iterator[tuple[Place, Block]]:
    """The readings as blocks of that step, each with its place."""
    if not len(readings.subjects):
        return
    buckets = readings.ats // (step_s * MICROS)
    begins = _begins(readings.subjects, buckets)
    known = readings.values != UNKNOWN
    tenths = np.where(known, readings.tenths[:, None], 0)
    sums = np.add.reduceat(np.where(known, readings.values, 0) * tenths, begins)
    all_tenths = np.add.reduceat(tenths, begins)
    peaks = np.maximum.reduceat(readings.values[:, with_max(readings.kind)], begins)
    subjects, buckets = readings.subjects[begins], buckets[begins]
    starts = buckets // BUCKETS_IN_BLOCK
    edges = [*_begins(subjects, starts), len(begins)]
    for begin, end in pairwise(edges):
        start = int(starts[begin]) * BUCKETS_IN_BLOCK
        place = Place(int(subjects[begin]), step_s, start * step_s)
        yield place, _dense(buckets[begin:end] - start, sums[begin:end], all_tenths[begin:end], peaks[begin:end])


def _begins(one: Whole, other: Whole) -> Whole:
    """Where either changes: they are sorted."""
    changed = np.ones(len(one), bool)
    changed[1:] = (one[1:] != one[:-1]) | (other[1:] != other[:-1])
    return np.flatnonzero(changed)


def _dense(at: Whole, sums: Whole, tenths: Whole, peaks: Whole) -> Block:
    """With a place for every bucket between the first and the last."""
    first, count = int(at[0]), int(at[-1] - at[0]) + 1
    spread = []
    for rows in (sums, tenths, peaks):
        array = np.zeros((rows.shape[1], count), np.int64)
        array[:, at - first] = rows.T
        spread.append(array)
    return Block(first, *spread)
