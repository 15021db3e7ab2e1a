"""The benchmark of placement, in small: that it runs, and that ours is ahead even there."""
import pytest
from bench import openb, placement, steady

pytestmark = pytest.mark.slow  # thousands of placements


def test_placement_is_measured_and_ahead_of_the_others():
    figures = placement.measure(workloads=("default",), seeds=(42,), steady_pods=0, speed_runs=1).figures
    asked = {figure.what: figure for figure in figures if "asked" in figure.what}
    assert len(asked) == 2
    assert all(figure.met for figure in asked.values())
    assert all(figure.value for figure in figures)


def test_the_replay_with_departures_gives_back_what_it_took():
    there, pods = openb.machines()[::12], [pod for pod in openb.pods("default") if pod.duration]
    seen = steady.replay(placement.Online(), [pods], there, seed=1, pods=500)
    assert 80 < seen.allotted_percent <= 100
    assert 0 <= seen.fragments_percent < 20
