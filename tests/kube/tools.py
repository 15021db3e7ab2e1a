"""gpufairy's own image for sessions, on the node of the tests' cluster."""
import pytest

from kube.cluster import Cluster
from kube.own_image import own_image

TOOLS_IMAGE = "docker.io/fairy-test/tools:1"


@pytest.fixture(scope="module")
def cluster_with_tools(cluster: Cluster) -> Cluster:
    own_image(cluster, "tools", TOOLS_IMAGE.removeprefix("docker.io/"))
    return cluster
