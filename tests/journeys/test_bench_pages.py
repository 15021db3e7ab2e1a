"""The benchmarks of the pages, in small: that they run and measure. Their figures mean nothing here."""
import pytest
from bench import web_crowd, web_first
from bench.web_campus import Size

pytestmark = [pytest.mark.system, pytest.mark.slow]

SMALL = Size(users=4, running=2, waiting=1, watched_hosts=1)


def test_open_pages_are_measured_and_all_come_back_after_a_restart():
    found = {figure.what.partition(": ")[2] or figure.what: figure for figure in web_crowd.measure(pages=10, lasts_s=3, back_s=8, size=SMALL).figures}
    assert found["pages that did not come back"].value == 0
    assert all(figure.value for figure in found.values() if figure.goal != 0)


def test_the_first_pages_are_measured_in_a_browser():
    figures = web_first.measure(looks=3, opened=1, size=SMALL).figures
    assert len(figures) == 20
    assert all(figure.value for figure in figures)
