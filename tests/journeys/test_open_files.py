"""A server takes as many descriptors as the system gives it, whichever engine it has: else one user's connections lock all others out."""
import resource
import socket

import pytest

from builders import a_node
from gpufairy.engines.fake import FakeContainers, FakeEngine
from gpufairy.engines.open_files import connections_that_fit
from gpufairy.main import serve
from gpufairy.wire.config import Config


class OtherEngine(FakeEngine):
    async def pids_of_all(self):
        return {}


@pytest.fixture
def few_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1] - 1), before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_server_raises_its_limit_of_open_files_with_any_engine(tmp_path, monkeypatch, few_files):
    monkeypatch.setattr(serve, "make_engine", lambda *_: OtherEngine((a_node(),), FakeContainers()))
    config = Config.model_validate({"ssh": {"enabled": False}})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        setup = serve.Setup(tmp_path, listener, "http://127.0.0.1:1", a_node(), config, "", "ann", "fairy")
        async with serve.opened(setup):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_files


@pytest.mark.parametrize(("open_files", "fit"), [(1_048_576, 8192), (20_000, 8192), (4096, 3072), (1024, 512), (256, 64)])
def test_strangers_never_get_the_last_descriptor_and_too_few_are_told_in_words(caplog, open_files, fit):
    assert connections_that_fit(8192, "limits.connections", open_files) == fit
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (fit < 8192)
    for line in told:
        assert f"limits.connections is 8192, but this process may have only {open_files} open files" in line
        assert "LimitNOFILE=" in line
