"""Attacks on the server as users start it, with its gateway. One for all files that do it no lasting harm: each has names and users of its own."""
import pytest
from attacked import a_server

from gpufairy.client import Fairy


@pytest.fixture(scope="session")
def server():
    with a_server() as live:
        yield live


@pytest.fixture(scope="module")
def own_server():
    """For files that may break it."""
    with a_server() as live:
        yield live


@pytest.fixture(scope="module")
def fairy(server):
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def make_user(server, fairy):
    """A user of that name, and a client that is signed in as them."""
    def make(name: str, role: str = "user") -> Fairy:
        fairy.add_user({"name": name, "role": role})
        return server.client(fairy.create_token({"user": name})["token"])

    return make
