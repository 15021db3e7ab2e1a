import shutil
import tempfile
from pathlib import Path

import pytest
from ssh_scene import Scene, is_open, need


@pytest.fixture(scope="module")
def one_gateway():
    """One gateway a file. Its folder is short: sockets lie in it, whose paths have at most 107 bytes."""
    need("ssh")
    folder = Path(tempfile.mkdtemp(prefix="fairy-ssh-"))
    made = Scene(folder)
    made.house.start()
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def scene(one_gateway):
    """As at the beginning: kim may come in, and her session runs."""
    house = one_gateway.house
    house.asked.clear()
    house.change(people={"kim": [one_gateway.public]}, endings=[], notices=[], answer=lambda _: is_open(one_gateway.home))
    return one_gateway


@pytest.fixture
def own_scene():
    """A gateway not started yet, for tests that end it."""
    need("ssh")
    folder = Path(tempfile.mkdtemp(prefix="fairy-ssh-"))
    made = Scene(folder)
    made.house.start()
    yield made
    made.stop()
    shutil.rmtree(folder)
