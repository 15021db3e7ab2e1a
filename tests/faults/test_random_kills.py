"""Some kills at random under load, with the whole history of the clients checked. The long run is `python -m tests.faults --run random_kills`."""
import pytest
from lengths import length_s
from random_kills import run

pytestmark = pytest.mark.slow


def test_kills_at_random_leave_a_history_that_fits_the_model(tmp_path):
    found = run(int(length_s(short=6, full=1000)), folder=tmp_path / "fairy")
    print(found)
    assert found.sessions > found.kills
