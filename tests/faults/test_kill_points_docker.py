"""`kill -9` of the server at the failpoints around containers, on a real dockerd."""
import pytest
from kill_points import ON_DOCKER, SAME_ON_DOCKER, killed_at
from kill_stages import docker_stage
from lengths import length_s

pytestmark = [pytest.mark.system, pytest.mark.slow]
POINTS = [point for point in ON_DOCKER if point not in SAME_ON_DOCKER or length_s(short=0, full=1)]


@pytest.fixture(scope="module")
def stage(docker_daemon):
    with docker_stage(docker_daemon) as made:
        yield made


@pytest.mark.parametrize("point", POINTS)
def test_a_server_killed_here_leaves_no_container_behind_and_makes_none_twice(stage, point):
    killed_at(stage, point, ON_DOCKER[point]())
