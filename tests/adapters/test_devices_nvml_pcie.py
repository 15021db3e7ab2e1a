"""Counters of PCIe traffic that only grow, made of the driver's 32 bits."""
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvml_child_scene import asking, reading

from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.devices.nvml_gpm import UNKNOWN_WORK, Work
from gpufairy.devices.nvml_pcie import ROUND, Pcie, grown

GB = 10**9


@given(st.integers(0, 10**15), st.integers(0, 10**12), st.floats(0.99, 1.01))
def test_a_count_that_went_round_many_times_is_found_again_by_its_rate(before: int, passed: int, off: float):
    likely = passed * off if passed < 100 * GB else float(passed)  # a rate one percent off tells up to 200 GB apart
    assert grown(before, (before + passed) % ROUND, likely) == before + passed


@pytest.mark.parametrize(("before", "told", "likely", "now"), [(5, 9, None, 9), (ROUND - 1, 4, None, ROUND + 4), (ROUND + 7, 7, None, ROUND + 7), (None, 9, 50.0 * GB, 9), (9, None, None, None)])
def test_without_a_rate_a_count_went_round_once_at_most(before: int | None, told: int | None, likely: float | None, now: int | None):
    assert grown(before, told, likely) == now


def test_a_driver_that_counts_in_64_bits_needs_no_help():
    assert grown(3 * GB, 900 * GB, None) == 900 * GB


def test_a_rate_that_cannot_be_does_not_run_away():
    assert grown(0, 0, 1e30) < 10**13


def test_each_gpu_and_each_way_is_counted_by_itself():
    pcie, fast = Pcie(), Work(sent_bytes_s=1.0 * GB, received_bytes_s=59.0 * GB)
    pcie.carried("GPU-1", (0, 0), UNKNOWN_WORK, 10.0)
    pcie.carried("GPU-2", (5, 5), UNKNOWN_WORK, 10.0)
    carried = pcie.carried("GPU-1", (1 * GB, 59 * GB % ROUND), fast, 11.0)
    assert (carried.sent_bytes, carried.received_bytes) == (1 * GB, 59 * GB)
    assert pcie.carried("GPU-2", (6, 5), UNKNOWN_WORK, 11.0).sent_bytes == 6


def test_a_count_that_is_missing_once_does_not_begin_anew():
    pcie = Pcie()
    for told in ((ROUND - 1, 0), (1, 0)):
        pcie.carried("GPU-1", told, UNKNOWN_WORK, 1.0)
    assert pcie.carried("GPU-1", (None, None), UNKNOWN_WORK, 2.0).sent_bytes is None
    assert pcie.carried("GPU-1", (2, 0), UNKNOWN_WORK, 3.0).sent_bytes == ROUND + 2
    pcie.keep(())
    assert pcie.carried("GPU-1", (2, 0), UNKNOWN_WORK, 4.0).sent_bytes == 2


def test_the_counters_of_a_gpu_do_not_fall_when_the_drivers_go_round(tmp_path: Path):
    fake = FakeNvml(tmp_path)
    fake.write(FakeMachine((FakeGpu(pcie_tx_bytes=4 * GB, pcie_rx_bytes=7),)))
    with asking(fake) as child:
        assert reading(child.sample()).pcie_sent_bytes == 4 * GB
        fake.write(FakeMachine((FakeGpu(pcie_tx_bytes=5 * GB, pcie_rx_bytes=8),)))
        sample = child.sample_with(lambda sample: reading(sample).pcie_received_bytes == 8)
        assert reading(sample).pcie_sent_bytes == 5 * GB
