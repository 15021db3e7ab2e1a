"""The benchmark of the simulator, in small: that it runs, and that fair turns are fairer than none."""
import pytest
from bench import simulate

pytestmark = pytest.mark.slow  # thousands of passes


def test_fair_is_judged_beside_fifo():
    figures = simulate.measure(jobs=400, rounds=1).figures
    shares = [figure for figure in figures if "Jain" in figure.what]
    assert len(shares) == 2
    assert all(figure.value >= figure.peer_value for figure in shares)
    assert all(figure.value > 10_000 for figure in figures if figure.unit == "x")
