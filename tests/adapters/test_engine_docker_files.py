"""The container for a user's files when no session runs: their folders, and nothing else."""
import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from docker_scene import UIDS, Scene, said, scene
from engine_waits import read_to_end, started

from builders import a_session
from gpufairy.engines import docker_files
from gpufairy.engines.contract import Command, Door
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.docker_spec import Folder
from gpufairy.engines.doors import open_door
from waits import until

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", params=["docker", "podman"])
def here(request: pytest.FixtureRequest, docker_tools: Path) -> Iterator[Scene]:
    with scene(request.getfixturevalue(f"{request.param}_daemon"), docker_tools) as made:
        (made.folder / "datasets").mkdir()
        (made.folder / "datasets" / "mnist").write_text("seven")
        yield made


@pytest.fixture
async def engine(here: Scene) -> AsyncIterator[DockerEngine]:
    async with started(here.engine(folders={"datasets": Folder(here.folder / "datasets")})) as running:
        yield running


async def ran(door: Door, script: str) -> str:
    stream = await open_door(door, Command((door.shell, "-c", f"exec 2>&1; {script}")))
    try:
        return (await read_to_end(stream.stdout)).decode()
    finally:
        await stream.close()


async def test_a_user_sees_own_files_and_what_is_shared_and_nothing_else(engine: DockerEngine, here: Scene):
    (here.folder / "shared" / "note").write_text("common")
    await said(engine, a_session("sh", "-c", "echo mine > ~/file"))
    await said(engine, a_session("sh", "-c", "echo theirs > ~/file", owner="student2"))
    door = await engine.files_door("student1")
    text = await ran(door, "read a < ~/file; read b < /shared/note; read c < /mnt/datasets/mnist; echo $a $b $c; echo /home/*; echo x > /shared/x; echo x > /x; echo $UID")
    assert text.splitlines()[:2] == ["mine common seven", "/home/student1"]
    assert text.count("Read-only file system") == 2
    assert text.splitlines()[-1] == str(UIDS["student1"])


async def test_it_has_no_network_and_no_rights(engine: DockerEngine, here: Scene):
    await engine.files_door("student1")
    (found,) = [one for one in here.containers() if one["Labels"]["gpufairy.role"] == "files"]
    host = here.daemon.container(found["Id"])["HostConfig"]
    assert (host["NetworkMode"], host["Memory"], host["ReadonlyRootfs"], host["Privileged"]) == ("none", 512 * 2**20, True, False)
    assert found["Names"][0].lstrip("/") == "fairy-files.student1"  # no session can be called so


async def test_it_is_no_session(engine: DockerEngine):
    await engine.files_door("student1")
    assert "files" not in [workload.id.session_id for workload in await engine.list_mine()]


async def test_many_who_come_at_once_share_one(engine: DockerEngine, here: Scene):
    doors = await asyncio.gather(*(engine.files_door("student2") for _ in range(5)))
    assert len(set(doors)) == 1
    async with started(here.engine()) as another:
        assert await another.files_door("student2") == doors[0]


async def test_what_is_written_is_in_the_home_of_the_next_session(engine: DockerEngine):
    door = await engine.files_door("student1")
    await ran(door, "echo uploaded > ~/upload")
    assert await said(engine, a_session("sh", "-c", "cat ~/upload; stat -c %u ~/upload")) == f"uploaded\n{UIDS['student1']}\n"


async def test_unused_it_leaves_by_itself_and_comes_back_when_asked(here: Scene, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docker_files, "IDLE_S", 1)

    def files() -> list[object]:
        return here.daemon.containers(**{"gpufairy.owner": "kim", "gpufairy.role": "files", "gpufairy.server": here.server_id})

    first = await engine.files_door("kim")
    await asyncio.to_thread(until, lambda: not files(), "the container to leave")
    second = await engine.files_door("kim")
    assert second.pid != first.pid
    assert await ran(second, "echo back") == "back\n"


async def test_sftp_speaks_from_there(engine: DockerEngine):
    door = await engine.files_door("student1")
    stream = await open_door(door, Command(("/opt/fairy/bin/sftp-server",)))
    hello = (5).to_bytes(4, "big") + b"\x01" + (3).to_bytes(4, "big")
    await asyncio.to_thread(Path(f"/proc/self/fd/{stream.stdin}").write_bytes, hello)
    answer = await asyncio.wait_for(asyncio.to_thread(read_some, stream.stdout), 10)
    await stream.close()
    assert answer[4] == 2  # SSH_FXP_VERSION


def read_some(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False, buffering=0) as file:
        return file.read(100)
