"""`kill -9` of the server at every step of a session, with PostgreSQL as its store: the next one waits for the lease, and finds all that was written."""
import pytest
from kill_points import ON_POSTGRES, TELLING_ON_POSTGRES, killed_at
from kill_stages import postgres_stage
from lengths import length_s

pytestmark = [pytest.mark.system, pytest.mark.slow]
POINTS = [point for point in ON_POSTGRES if point in TELLING_ON_POSTGRES or length_s(short=0, full=1)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory, postgres_url_of_module):
    with postgres_stage(tmp_path_factory.mktemp("kp"), postgres_url_of_module) as made:
        yield made


@pytest.mark.parametrize("point", POINTS)
def test_a_server_killed_here_leaves_nothing_undone_and_nothing_done_twice_on_postgresql(stage, point):
    killed_at(stage, point, ON_POSTGRES[point]())
