"""The benchmarks of readings, in small: that they run and measure. Their figures mean nothing here."""
import pytest
from bench import agents, collector

pytestmark = [pytest.mark.system, pytest.mark.slow]  # a C compiler for the fake library; seconds of measuring


def test_the_collector_is_measured():
    figures = collector.measure(warm_s=0, lasts_s=2, scrapes=5, beside_peer=False).figures
    assert all(figure.value for figure in figures if "nvitop" not in figure.what)


def test_agents_are_accepted_and_no_report_of_theirs_is_lost():
    found = {figure.what: figure for figure in agents.measure(agents=5, lasts_s=5, kept=6, agents_seen=3, looks=2, commands=1).figures}
    lost = next(figure for what, figure in found.items() if "not in the store" in what)
    assert (lost.what, lost.value) == ("of 5 reports sent, not in the store", 0)
    assert [figure.what for figure in found.values() if not figure.value] == [figure.what for figure in found.values() if figure.goal == 0]
