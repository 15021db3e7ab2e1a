"""A launch whose answer was lost, taken up again: what is there is held to its share like any other. On fakes of the daemon."""
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import a_gpu_seat, a_seat, a_session
from gpufairy.core.share import PARTS
from gpufairy.engines.docker_launch import Launcher
from gpufairy.engines.docker_list import Container
from gpufairy.engines.homes import own_began


class FakeListing:
    """One container, of whatever session is asked for."""

    def __init__(self, state: str, pid: int) -> None:
        self.container, self.pid = Container("c1", "brave-otter", state, {}), pid

    async def of(self, workload):
        return self.container

    async def inspect(self, container_id):
        return {"State": {"Pid": self.pid}}


class ShareBook:
    """Whom it was told of, by the process that is first."""

    def __init__(self) -> None:
        self.begun_with: list[tuple[str, int]] = []

    async def ready(self, session):
        return None

    async def begun(self, session, pid):
        self.begun_with.append((session.id, pid))


class LauncherThatStarts(Launcher):
    """Its daemon starts whatever it is asked to."""

    async def _start(self, session, container_id):
        self.started = container_id


def a_launcher(listing: FakeListing, book: ShareBook) -> LauncherThatStarts:
    here = Path("/nowhere")
    return LauncherThatStarts(
        SimpleNamespace(), listing, SimpleNamespace(), SimpleNamespace(), lambda session: None,
        server_id="s", network="none", tools=here, shared=here, api_folder=here, gpu_shares=book,
    )  # fmt: skip


def half_a_gpu():
    return a_session("work", seat=a_seat("here", a_gpu_seat(0, PARTS // 2, simulated=False)))


@pytest.mark.parametrize("state", ["created", "running"])
async def test_a_session_found_after_a_lost_answer_is_held_to_its_share(state):
    book, session = ShareBook(), half_a_gpu()
    assert await a_launcher(FakeListing(state, 77), book).started_before(session)
    assert book.begun_with == [(session.id, 77)]


async def test_one_without_a_part_of_a_gpu_is_not_looked_at_again():
    book = ShareBook()
    assert await a_launcher(FakeListing("running", 77), book).started_before(a_session("work"))
    assert book.begun_with == []


async def test_one_that_has_ended_meanwhile_is_held_to_nothing():
    book = ShareBook()
    assert await a_launcher(FakeListing("exited", 0), book).started_before(half_a_gpu())
    assert book.begun_with == []


@pytest.mark.system
@pytest.mark.parametrize(("left", "kept"), [(None, b"new\n"), (b"", b"new\n"), (b"ran\n", b"ran\n")])
def test_the_file_of_its_beginning_is_its_owners_whatever_a_killed_server_left_of_it(tmp_path, left, kept):
    path = tmp_path / "began"
    if left is not None:
        path.write_bytes(left)
    own_began(path, 20_001)
    assert (path.read_bytes(), path.stat().st_uid) == (kept, 20_001)
