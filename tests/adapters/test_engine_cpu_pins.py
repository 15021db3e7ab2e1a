"""Pinned are seats of at least one CPU, to the least taken ones."""
import pytest

from gpufairy.engines.cpu_pins import pick_cpus


@pytest.mark.parametrize("cpus_milli", [1, 999, 4000, 9000])
def test_less_than_a_cpu_and_the_whole_machine_are_not_pinned(cpus_milli: int):
    assert pick_cpus(cpus_milli, range(4), []) is None


def test_the_least_taken_are_picked():
    assert pick_cpus(2000, range(4), [{0, 1}, {1, 2}]) == {0, 3}


def test_part_of_a_cpu_more_takes_one_more():
    assert pick_cpus(1500, range(4), []) == {0, 1}
