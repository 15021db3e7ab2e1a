"""`kill -9` of the server at the failpoints around pods, on a real Kubernetes."""
import pytest
from kill_points import ON_KUBERNETES, killed_at
from kill_stages import kubernetes_stage

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def stage(cluster_with_tools):
    with kubernetes_stage(cluster_with_tools) as made:
        yield made


@pytest.mark.parametrize("point", ON_KUBERNETES)
def test_a_server_killed_here_leaves_no_pod_behind_and_makes_none_twice(stage, point):
    killed_at(stage, point, ON_KUBERNETES[point]())
