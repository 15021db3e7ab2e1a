"""`kill -9` of the server at every failpoint, with processes as sessions: nothing is lost, nothing runs twice, as an independent reader sees it."""
import pytest
from kill_points import ON_PROCESS, killed_at
from kill_sessions import Booked
from kill_stages import process_stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with process_stage(tmp_path_factory.mktemp("kp")) as made:
        yield made


@pytest.mark.parametrize("point", ON_PROCESS)
def test_a_server_killed_here_leaves_nothing_undone_and_nothing_done_twice(stage, point):
    killed_at(stage, point, ON_PROCESS[point]())


def test_a_server_killed_when_a_booking_sends_somebody_away_sends_them_once(stage):
    killed_at(stage, "after_preempted_written", Booked())


@pytest.mark.parametrize("point", ["before_launch", "after_label_before_spawn", "before_stop", "before_clear"])
def test_a_server_killed_again_while_it_makes_up_for_it_does_no_harm_either(stage, point):
    killed_at(stage, point, ON_PROCESS[point](), again=2)
