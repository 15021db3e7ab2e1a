"""The pure parts of reading GPUs: names, numbers, samples of processes, and the line that a sample travels as."""
import json
import subprocess
import sys
from dataclasses import dataclass, fields
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput
from gpufairy.core.reading import THROTTLE_WORDS, GpuDevice, GpuProcess, GpuReading, GpuSample, LostGpu, Xid
from gpufairy.devices.nvml_processes import Busy, newest
from gpufairy.devices.nvml_words import cuda_text, kind_of, part, profile_in, throttle_words
from gpufairy.devices.sample_line import from_line, to_line, trouble_line

PRODUCTS = {
    ("NVIDIA A100-SXM4-40GB", 40960): "A100-40GB", ("NVIDIA A100 80GB PCIe", 81920): "A100-80GB", ("NVIDIA H200", 143155): "H200-141GB",
    ("NVIDIA GeForce RTX 3090", 24576): "RTX3090", ("NVIDIA RTX A6000", 49140): "A6000", ("Tesla V100-SXM2-16GB", 16384): "V100-16GB",
    ("NVIDIA GeForce RTX 2080 Ti", 11264): "RTX2080Ti", ("NVIDIA H100 80GB HBM3", 81559): "H100-80GB", ("NVIDIA L40S", 46068): "L40S",
    ("NVIDIA L40", 46068): "L40", ("NVIDIA TITAN RTX", 24576): "TITAN-RTX", ("Quadro K2200", 4096): "K2200", ("", 1): "GPU",
}  # fmt: skip


@pytest.mark.parametrize(("product", "kind"), PRODUCTS.items())
def test_products_have_the_names_that_people_use(product, kind):
    assert kind_of(*product) == kind


@pytest.mark.parametrize(
    ("name", "profile"),
    [("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"), ("NVIDIA H100 MIG 1c.3g.40gb+me", "1c.3g.40gb+me"), ("MIG 2g.10gb", "2g.10gb"), ("NVIDIA H200", None), ("", None)],
)
def test_the_name_of_an_instance_says_how_it_was_cut(name, profile):
    assert profile_in(name) == profile


def test_each_reason_for_slow_clocks_has_its_bit():
    assert [throttle_words(1 << bit) for bit in range(11)] == [(), (), *((word,) for word in THROTTLE_WORDS), (), ()]
    assert throttle_words(0) == ()
    assert throttle_words(2**64 - 1) == THROTTLE_WORDS


def test_versions_of_cuda_read_as_people_write_them():
    assert [cuda_text(version) for version in (13000, 12040, 11080)] == ["13.0", "12.4", "11.8"]


def test_a_part_is_between_nought_and_one_or_not_known():
    assert [part(percent) for percent in (0, 100, 37, 101, -1, float("nan"), float("inf"), 2**32 - 1)] == [0.0, 1.0, 0.37, *[None] * 5]


@dataclass
class Sample:
    pid: int
    timeStamp: int
    smUtil: int
    memUtil: int


def test_of_several_samples_of_a_process_the_newest_counts():
    assert newest([Sample(7, 30, 3, 1), Sample(7, 50, 5, 2), Sample(7, 40, 4, 1), Sample(8, 10, 1, 1)]) == {7: Busy(0.05, 0.02), 8: Busy(0.01, 0.01)}


def test_a_sample_over_a_hundred_is_dropped_and_an_older_good_one_stands():
    assert newest([Sample(7, 40, 4, 1), Sample(7, 50, 5000, 2), Sample(7, 60, 4, 101), Sample(8, 10, 101, 1)]) == {7: Busy(0.04, 0.01), 8: Busy(None, None)}


NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**63)
TIMES = st.datetimes(timezones=st.just(UTC))
REASONS = st.none() | st.lists(st.sampled_from(THROTTLE_WORDS)).map(tuple)


def some(kind, **own):
    """A few values of a kind, whatever its fields may hold. NaN is no number, and JSON has none."""
    floats = {field.name: NUMBERS for field in fields(kind) if field.type == float | None}
    return st.lists(st.builds(kind, **floats, **own), max_size=3).map(tuple)


SAMPLES = st.builds(
    GpuSample, at=TIMES, devices=some(GpuDevice), readings=some(GpuReading, at=TIMES, throttled_by=REASONS), processes=some(GpuProcess),
    xids=some(Xid, at=TIMES), lost=some(LostGpu), took_s=NUMBERS,
)  # fmt: skip


@given(SAMPLES)
def test_a_sample_comes_back_from_its_line_as_it_was(sample):
    line = to_line(sample)
    assert "\n" not in line
    assert from_line(line) == sample
    assert from_line(line.encode() + b"\n") == sample


def test_what_is_not_known_takes_no_room():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert json.loads(to_line(GpuSample(at, readings=(GpuReading("GPU-1", at, 0.0),))))["readings"] == [{"uuid": "GPU-1", "at": at.isoformat(), "utilisation": 0.0}]


def test_nan_never_travels():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="JSON"):
        to_line(GpuSample(at, took_s=float("nan")))


def test_trouble_is_told_in_words():
    assert from_line(trouble_line('the driver said "no"\n')) == 'the driver said "no"\n'


@pytest.mark.parametrize("line", ["", "{", "[]", "7", "null", '"x"', "{}", '{"at": 3}', '{"at": "2026-01-01", "devices": [7]}', '{"at": "2026-01-01", "novel": 1}', b"\xff\xfe"])
def test_a_broken_line_is_refused_in_words(line):
    with pytest.raises(BadInput, match="no sample of GPUs"):
        from_line(line)


@given(st.binary(max_size=80) | st.text(max_size=80) | st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.dictionaries(st.sampled_from(["at", "devices", "readings", "trouble"]), inner)).map(json.dumps))
def test_any_line_is_a_sample_or_is_refused(line):
    try:
        assert isinstance(from_line(line), GpuSample | str)
    except BadInput as error:
        assert error.detail


def test_the_process_that_asks_loads_nothing_heavy():
    listed = "import sys, gpufairy.devices.nvml_child; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "asyncio", "pydantic", "psutil", "sqlalchemy", "socket"} & set(loaded)
