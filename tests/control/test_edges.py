"""What the edges answer, asked without a server in between."""
import os
from pathlib import Path

import pytest
from house_scene import a_house

from gpufairy.api import health
from gpufairy.api.context import Context
from gpufairy.api.problems import status_and_title
from gpufairy.control.links import SignInLinks
from gpufairy.control.loop import Loop
from gpufairy.core import errors
from gpufairy.core.errors import BadInput, FairyError
from gpufairy.core.names import RESERVED_ENV
from gpufairy.engines.process_env import may_set
from gpufairy.main import up
from gpufairy.store.faults import ConnectionLost
from gpufairy.wire.submit import SubmitBody, understood


async def test_readiness_tells_strangers_which_part_fails_and_nothing_of_our_insides(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        house = scene.house
        failing = Loop("place", house.look_at_nodes, house.bells.place, every_s=1)
        failing.failing = f"database {tmp_path}/fairy.db is damaged"
        context = Context(house, SignInLinks(house.clock), "http://server", (failing,))
        (readyz,) = (route.endpoint for route in health.routes(context).routes if route.path == "/readyz")
        answer = await readyz()
    assert answer.status_code == 503
    assert b'"place"' in answer.body
    assert b"fairy.db" not in answer.body


def test_an_adapters_own_kind_of_error_is_told_as_what_it_is_a_kind_of():
    assert status_and_title(ConnectionLost("gone")) == status_and_title(errors.StoreUnavailable("gone"))


def test_every_error_has_a_status():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FairyError)]
    assert all(400 <= status_and_title(kind("what"))[0] < 600 for kind in kinds)


@pytest.mark.parametrize("beginning", RESERVED_ENV)
def test_a_variable_that_sessions_may_not_set_is_refused_at_the_door_and_left_out_by_the_engine(beginning: str):
    name = f"{beginning}X" if beginning.endswith("_") else beginning
    assert not may_set(name)
    with pytest.raises(BadInput, match=name):
        understood(SubmitBody(command=["true"], env={name: "1"}), has_gpus=False)


def test_the_end_of_the_pipe_that_tells_of_the_start_is_inherited_by_no_session(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    monkeypatch.setenv(up.ANNOUNCE, str(writing))
    up.keep_announcement_private()
    assert not os.get_inheritable(writing)
    os.close(reading)
    os.close(writing)
