"""Whole journeys: the real server process, the real command line, real processes as sessions."""
import pytest
from bench.server import LiveServer

from daemons import docker_daemon
from gpufairy.client import Fairy

__all__ = ["docker_daemon"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server a file: tests in it use names and users of their own."""
    with LiveServer(tmp_path_factory.mktemp("fairy"), "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n") as live:
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
