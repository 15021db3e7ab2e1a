"""`kill -9` of the server around what it asks of a cloud, on a control plane with a real Karpenter: a pool is made once, and removed wholly."""
import pytest
from kill_points import ON_POOLS, killed_at
from kill_stages import pool_stage

from kube.karpenter import karpenter
from kube.start import control_plane

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def stage():
    with control_plane() as cluster, karpenter(cluster), pool_stage(cluster) as made:
        yield made


@pytest.mark.parametrize("point", ON_POOLS)
def test_a_server_killed_here_makes_no_second_pool_and_leaves_nothing_of_one_that_is_removed(stage, point):
    killed_at(stage, point, ON_POOLS[point]())


@pytest.mark.parametrize("point", ["after_pool_make_before_noted", "before_pool_remove"])
def test_a_server_killed_again_while_it_makes_up_for_it_does_no_harm_either(stage, point):
    killed_at(stage, point, ON_POOLS[point](), again=2)
