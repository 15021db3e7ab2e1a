"""Blocks: what goes in comes out, and merging is exact in whatever order."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.series import COLUMNS, LARGEST_GRAINS, Kind, Subject, point
from gpufairy.store import history_blocks
from gpufairy.store.history_blocks import BUCKETS_IN_BLOCK, Block, from_bytes, merged, to_bytes, with_max
from gpufairy.store.history_reports import MICROS, blocks_of, pack, unpack

NODE = Subject(Kind.NODE, "gpu01", "gpu01")
GPU = Subject(Kind.GPU, "GPU-1", "gpu01")


@st.composite
def blocks(draw, kind: Kind = Kind.GPU) -> Block:
    count = draw(st.integers(1, 12))
    first = draw(st.integers(0, BUCKETS_IN_BLOCK - count))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (len(COLUMNS[kind]), count)
    tenths = numbers.integers(0, 36_000, shape) * numbers.integers(0, 2, shape)
    means = numbers.integers(-300, draw(st.sampled_from([2, 1000, LARGEST_GRAINS])), shape)
    sums = np.where(tenths > 0, means * tenths + numbers.integers(0, 36_000, shape) % np.maximum(tenths, 1), 0)
    peaks = np.where(tenths[with_max(kind)] > 0, np.minimum(means[with_max(kind)] + 7, LARGEST_GRAINS), 0)
    return Block(first, sums, tenths, peaks)


def same(one: Block, other: Block) -> bool:
    peaked = one.tenths[with_max(Kind.GPU)] > 0
    alike = one.first == other.first and np.array_equal(one.sums, other.sums) and np.array_equal(one.tenths, other.tenths)
    return alike and np.array_equal(np.where(peaked, one.peaks, 0), np.where(peaked, other.peaks, 0))


@given(blocks())
def test_a_block_comes_back_from_its_bytes_as_it_was(block: Block):
    assert same(from_bytes(Kind.GPU, to_bytes(Kind.GPU, block)), block)


@given(blocks(), blocks(), blocks())
@settings(max_examples=60)
def test_merging_gives_the_same_in_any_order(one: Block, two: Block, three: Block):
    left = merged(Kind.GPU, merged(Kind.GPU, one, two), three)
    right = merged(Kind.GPU, three, merged(Kind.GPU, two, one))
    assert same(left, right)
    assert left.sums.sum() == one.sums.sum() + two.sums.sum() + three.sums.sum()


def test_a_block_from_before_a_column_was_kept_does_not_know_it(monkeypatch):
    older = {**COLUMNS, Kind.GPU: COLUMNS[Kind.GPU][:3]}
    with monkeypatch.context() as then:
        then.setattr(history_blocks, "COLUMNS", older)
        written = to_bytes(Kind.GPU, Block(5, np.full((3, 2), 700), np.full((3, 2), 70), np.full((2, 2), 11)))
    block = from_bytes(Kind.GPU, written)
    assert block.tenths.sum(axis=1).tolist() == [140] * 3 + [0] * (len(COLUMNS[Kind.GPU]) - 3)
    assert block.peaks.tolist()[:2] == [[11, 11], [11, 11]]


def test_what_one_report_says_comes_back_from_its_bytes_to_the_grain():
    points = [(3, point(GPU, utilisation=0.1234, held=1.0)), (1, point(NODE, cpu=0.5, sent_bytes_per_s=1e30))]
    found = unpack([(60 * MICROS, pack(points, 5.0))])
    gpu, node = found[Kind.GPU], found[Kind.NODE]
    assert (gpu.subjects.tolist(), gpu.ats.tolist(), gpu.tenths.tolist()) == ([3], [57_500_000], [50])
    grains = {"utilisation": 123, "held": 1000}
    assert gpu.values[0].tolist() == [grains.get(column.name, -(2**31)) for column in COLUMNS[Kind.GPU]]
    assert node.values[0][COLUMNS[Kind.NODE].index(next(c for c in COLUMNS[Kind.NODE] if c.name == "sent_bytes_per_s"))] == LARGEST_GRAINS


def test_a_report_counts_in_the_bucket_in_which_the_time_it_stands_for_lies():
    found = unpack([(60 * MICROS, pack([(3, point(GPU, utilisation=0.5))], 5.0))])[Kind.GPU]
    [(place, block)] = blocks_of(found, 10)
    assert (place.start, block.first) == (0, 5)
