"""The benchmark of advice, in small: that it runs and measures."""
import pytest
from bench import insight


@pytest.mark.slow
def test_advice_on_many_is_measured_with_and_without_the_store():
    figures = insight.measure(sessions=40).figures
    assert all(figure.value for figure in figures)
    assert figures[0].goal == 200
