"""Whole journeys: the real server process, the real command line, real processes as sessions."""
import pytest
import pytest_asyncio
from bench.server import LiveServer
from chromium import a_page

from daemons import docker_daemon
from gpufairy.client import Fairy
from kube.start import cluster, shared_cluster
from kube.tools import cluster_with_tools

__all__ = ["cluster", "cluster_with_tools", "docker_daemon", "shared_cluster"]

PRETENDED = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n[gpus]\nsimulate = '2xA100-40GB'\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server a file: tests in it use names and users of their own. Its GPUs are simulated, whatever this machine has."""
    with LiveServer(tmp_path_factory.mktemp("fairy"), PRETENDED) as live:
        yield live


@pytest.fixture
def fairy(server):
    with server.client() as client:
        yield client


@pytest.fixture
def make_user(server, fairy):
    """A user of that name, and a client that is signed in as them."""
    def make(name: str, role: str = "user") -> Fairy:
        fairy.add_user({"name": name, "role": role})
        return server.client(fairy.create_token({"user": name})["token"])

    return make


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """One a file, whose tests say `asyncio(loop_scope="module")`."""
    async with a_page() as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser):
    return await browser.fresh()
