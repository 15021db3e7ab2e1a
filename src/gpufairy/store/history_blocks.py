"""Blocks: the buckets of one subject in one stretch of time, as arrays and as bytes. All of it whole numbers, so merging is exact.

A column's mean is kept as the sum of (value in grains x tenths of a second) beside the tenths for which it was known.
"""
import struct
import zlib
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.series import COLUMNS, Kind

Whole: TypeAlias = NDArray[np.int64]

BUCKETS_IN_BLOCK = 360  # an hour of 10 s, six of 1 min, fifteen days of 1 h: small enough to write again every few minutes
FORM = 1
HEAD = struct.Struct("<BBBHH")  # form, columns, columns with a maximum, first bucket, buckets
LEVEL = 1  # of zlib: higher ones take twice as long and save a twentieth
BYTES = 4  # of a number as it is written
TENTHS = 10  # of a second


def with_max(kind: Kind) -> list[int]:
    return [place for place, column in enumerate(COLUMNS[kind]) if column.has_max]


@dataclass(frozen=True, slots=True)
class Block:
    """Of one subject, `first` counted from the block's beginning. Arrays are columns x buckets."""

    first: int
    sums: Whole  # grains x tenths of a second
    tenths: Whole  # for how long it was known; 0: not at all, and then the others mean nothing
    peaks: Whole  # in grains; a row for each column with a maximum

    @property
    def end(self) -> int:
        return self.first + int(self.sums.shape[1])


def merged(kind: Kind, one: Block, other: Block) -> Block:
    """Of two blocks of the same stretch."""
    first, end = min(one.first, other.first), max(one.end, other.end)
    peaked, shape = with_max(kind), (len(COLUMNS[kind]), end - first)
    sums, tenths = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    peaks = np.zeros((len(peaked), end - first), np.int64)
    for part in (one, other):
        here = slice(part.first - first, part.end - first)
        new = tenths[peaked, here] == 0
        keep = new | ((part.tenths[peaked] > 0) & (part.peaks > peaks[:, here]))
        peaks[:, here] = np.where(keep, part.peaks, peaks[:, here])
        sums[:, here] += part.sums
        tenths[:, here] += part.tenths
    return Block(first, sums, tenths, peaks)


def to_bytes(kind: Kind, block: Block) -> bytes:
    """Byte by byte of the numbers, not number by number: most of their bytes are zero or like their neighbours, and vanish."""
    count = block.sums.shape[1]
    known = np.maximum(block.tenths, 1)
    means, rests = block.sums // known, block.sums % known
    tenths = block.tenths.copy()
    tenths[1:] -= block.tenths[0]  # the columns of a report are mostly known for the same time
    peaks = np.where(block.tenths[with_max(kind)] > 0, block.peaks - means[with_max(kind)], 0)
    numbers = np.concatenate((means, rests, tenths, peaks)).astype("<i4")
    planes = numbers.view(np.uint8).reshape(len(numbers), count, BYTES).transpose(0, 2, 1).reshape(-1, count)
    used = planes.any(axis=1)
    packed = zlib.compress(np.packbits(used).tobytes() + planes[used].tobytes(), LEVEL)
    return HEAD.pack(FORM, len(block.sums), len(peaks), block.first, count) + packed


def from_bytes(kind: Kind, body: bytes) -> Block:
    _, columns, peaked, first, count = HEAD.unpack_from(body)
    packed = np.frombuffer(zlib.decompress(body[HEAD.size :]), np.uint8)
    rows = 3 * columns + peaked
    mask_bytes = (rows * BYTES + 7) // 8
    used = np.unpackbits(packed[:mask_bytes])[: rows * BYTES].astype(bool)
    planes = np.zeros((rows * BYTES, count), np.uint8)
    planes[used] = packed[mask_bytes:].reshape(-1, count)
    numbers = np.ascontiguousarray(planes.reshape(rows, BYTES, count).transpose(0, 2, 1)).view("<i4")[..., 0].astype(np.int64)
    means, rests, tenths, rises = np.split(numbers, (columns, 2 * columns, 3 * columns))
    tenths[1:] += tenths[0]
    block = Block(first, means * np.maximum(tenths, 1) + rests, tenths, rises + means[with_max(kind)[:peaked]])
    return block if columns == len(COLUMNS[kind]) else _with_new_columns(kind, block)


def _with_new_columns(kind: Kind, block: Block) -> Block:
    """It was written before these columns were kept: they are not known there."""
    more, more_peaks = len(COLUMNS[kind]) - len(block.sums), len(with_max(kind)) - len(block.peaks)
    return Block(
        block.first, *(np.pad(array, ((0, missing), (0, 0))) for array, missing in
                       ((block.sums, more), (block.tenths, more), (block.peaks, more_peaks))),
    )  # fmt: skip
