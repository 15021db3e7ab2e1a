"""Hostile requests, past every check that comes before the engine: each is refused, or what it wanted is absent from the real container."""
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from docker_scene import TOKEN, UIDS, Scene, scene
from engine_waits import started, stop_all

from builders import GIB, a_gpu_seat, a_seat, a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.names import RESERVED_ENV
from gpufairy.core.session import Session
from gpufairy.core.workload import workload_id
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.docker_spec import Folder
from images import BUSYBOX_IMAGE

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]
NAMES = ["..", "../x", "a/b", "a b", "A", "x" * 5000, "--privileged", "a\nb", "a\0b", "", "ᚠ", "a:rw", "-", "a;id", "$(id)"]
OWNERS = ["..", "../root", "a/b", "", "student1:/etc:rw", "student1/../student2", "student1\n", "STUDENT1", "$(id)", "a\0"]
IMAGES = [
    "../../x", "-v/:/host", f"{BUSYBOX_IMAGE} --privileged", "x/../../containers/json", "http://evil/x", "a" * 400, "x:y:z", "x\ny", "x?fromSrc=-",
    "sha256:" + "0" * 64, "fairy-test/nosuch:1", "BUSYBOX",
]  # fmt: skip
MOUNTS = [
    "/", "/etc", "..", "../etc", "data/../..", "data/link", "data/deep/out", "data/file", "/var/run/docker.sock", "data:/etc:rw", "own/sub", "nosuch",
    "data/./deep", "data//deep", "data/\0", "~", "proc/1/root",
]  # fmt: skip
WORKDIRS = ["../../..", "/etc", "/proc/1/root", "--log=/etc/passwd", "-h", "/run/fairy/server/..", "a\nb", "~root", "x" * 5000]
COMMANDS = [
    ("--relay", "1:/x"), ("--", "id"), ("--log", "/etc/passwd"), ("/opt/fairy/bin/porter", "--relay", "22:/run/fairy/server/api.sock"),
    ("sh", "-c", "echo > /proc/sys/kernel/core_pattern"), ("mount", "-t", "proc", "proc", "/mnt"), ("unshare", "-r", "id"), ("chroot", "/"),
]  # fmt: skip
ENVS = [
    ("LD_PRELOAD", "/evil.so"), ("LD_AUDIT", "/evil.so"), ("LD_LIBRARY_PATH", "/evil"), ("NVIDIA_VISIBLE_DEVICES", "all"), ("CUDA_VISIBLE_DEVICES", "0,1"),
    ("NVIDIA_DRIVER_CAPABILITIES", "all"), ("FAIRY_TOKEN_FILE", "/etc/passwd"), ("FAIRY_SESSION", "other"), ("FAIRY_URL", "http://evil"), ("SHELLOPTS", "noexec"),
    ("CUDA_MPS_PIPE_DIRECTORY", "/x"), ("A=B", "x"), ("", "x"), ("A B", "x"), ("A\nLD_PRELOAD", "x"), ("OK", "x\0LD_PRELOAD=/evil"), ("gpufairy.owner", "root"),
    ("NVIDIA_MIG_CONFIG_DEVICES", "all"),
]  # fmt: skip
HUGE = [(f"V{number}", "x" * 100_000) for number in range(60)]


@pytest.fixture(scope="module", params=["docker", "podman"])
def here(request: pytest.FixtureRequest, docker_tools: Path) -> Iterator[Scene]:
    with scene(request.getfixturevalue(f"{request.param}_daemon"), docker_tools) as made:
        data = made.folder / "datasets"
        (data / "deep").mkdir(parents=True)
        (data / "link").symlink_to("/etc")
        (data / "deep" / "out").symlink_to("../../..")
        (data / "file").touch()
        (made.folder / "own" / "sub").mkdir(parents=True)
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(here: Scene) -> AsyncIterator[DockerEngine]:
    folders = {"data": Folder(here.folder / "datasets"), "own": Folder(here.folder / "own", writable=True)}
    async with started(here.engine(folders=folders)) as running:
        yield running


async def built(here: Scene, engine: DockerEngine, session: Session) -> dict[str, Any] | None:
    """The container as the daemon has it; None: refused, and nothing is left of it."""
    try:
        await engine.launch(session)
    except EngineRefused as refused:
        assert str(refused)
        assert here.containers() == []
        return None
    detail = here.inspect(session)
    await stop_all(engine)
    await engine.clear(workload_id(session))
    return detail


def check(detail: dict[str, Any], here: Scene, owner: str = "student1", extra_mounts: frozenset[str] = frozenset()) -> None:
    """All that any container of ours may have."""
    host, config = detail["HostConfig"], detail["Config"]
    assert host["Privileged"] is False
    assert not host["CapAdd"]
    assert {*host["CapDrop"]} >= {"ALL"} or len(host["CapDrop"]) >= 11  # Podman names each that it would have had
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert "host" not in {host[mode] for mode in ("PidMode", "UTSMode", "UsernsMode", "CgroupnsMode")}
    assert host["IpcMode"] in ("private", "shareable")  # the second is what Podman calls its own private one
    assert not host["Devices"]
    assert not host.get("DeviceRequests")
    assert not host["PortBindings"]
    assert not host["VolumesFrom"]
    assert not host["ExtraHosts"]
    assert not host["GroupAdd"]
    assert not host["CgroupParent"]
    assert (host["Memory"], host["PidsLimit"]) == (GIB, 4096)
    assert set(detail["NetworkSettings"]["Networks"]) == {f"fairy-{here.server_id}"}
    assert config["User"] == f"{UIDS[owner]}:{UIDS[owner]}"
    assert config["Entrypoint"][0] == "/opt/fairy/bin/porter"
    targets = {"/results", "/run/fairy", "/run/fairy/log", "/run/fairy/began", "/run/fairy/server", "/shared", "/opt/fairy", "/etc/passwd", "/etc/group", "/etc/profile.d/zz-fairy.sh", f"/home/{owner}"}
    assert {mount["Destination"] for mount in detail["Mounts"]} == targets | extra_mounts
    assert {mount["Destination"] for mount in detail["Mounts"] if mount["RW"]} == {"/results", "/run/fairy/log", "/run/fairy/began", f"/home/{owner}"}
    assert all(mount["Source"].startswith((f"{here.folder}/", str(here.tools))) for mount in detail["Mounts"])
    ours = {"role", "server", "session", "attempt", "owner", "name", "launch", "root"}
    assert {name for name in config["Labels"] if not name.startswith("io.")} == {f"gpufairy.{name}" for name in ours}
    assert config["Labels"]["gpufairy.owner"] == owner
    assert TOKEN not in str(detail)


def variables(detail: dict[str, Any]) -> dict[str, str]:
    return dict(variable.split("=", 1) for variable in detail["Config"]["Env"])


@pytest.mark.parametrize("name", NAMES)
async def test_a_hostile_name_is_refused(here: Scene, engine: DockerEngine, name: str):
    assert await built(here, engine, a_session("true", name=name)) is None


@pytest.mark.parametrize("owner", OWNERS)
async def test_a_hostile_owner_is_refused(here: Scene, engine: DockerEngine, owner: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(UIDS, owner, 20_099)
    before = {path.name for path in here.places.homes.glob("*")} if here.places.homes.exists() else set()
    assert await built(here, engine, a_session("true", owner=owner)) is None
    assert {path.name for path in here.places.homes.glob("*")} == before


@pytest.mark.parametrize("image", IMAGES)
async def test_a_hostile_image_name_is_refused(here: Scene, engine: DockerEngine, image: str):
    session = a_session("true")
    assert await built(here, engine, replace(session, request=replace(session.request, image=image))) is None


@pytest.mark.parametrize("mount", MOUNTS)
async def test_a_hostile_mount_is_refused(here: Scene, engine: DockerEngine, mount: str):
    session = a_session("true")
    assert await built(here, engine, replace(session, request=replace(session.request, mounts=(mount,)))) is None


@pytest.mark.parametrize("workdir", WORKDIRS)
async def test_a_hostile_work_folder_changes_nothing_of_the_container(here: Scene, engine: DockerEngine, workdir: str):
    detail = await built(here, engine, a_session("true", workdir=workdir))
    if detail is not None:
        check(detail, here)
        assert detail["Config"]["WorkingDir"] == "/"


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_hostile_command_changes_nothing_of_the_container(here: Scene, engine: DockerEngine, command: tuple[str, ...]):
    detail = await built(here, engine, a_session(*command))
    assert detail is not None
    check(detail, here)
    assert tuple(detail["Config"]["Entrypoint"][-len(command) :]) == command
    assert detail["Config"]["Entrypoint"].index("--") == len(detail["Config"]["Entrypoint"]) - len(command) - 1


@pytest.mark.parametrize("variable", ENVS, ids=lambda variable: repr(variable[0]))
async def test_a_hostile_variable_is_left_out(here: Scene, engine: DockerEngine, variable: tuple[str, str]):
    session = a_session("true", env=(variable,), seat=a_seat("here", a_gpu_seat(1)))
    detail = await built(here, engine, session)
    assert detail is not None
    check(detail, here)
    env = variables(detail)
    assert env.get(variable[0]) != variable[1]
    assert variable[1] not in env.values() or variable[0] in ("gpufairy.owner",)
    allowed = {"CUDA_VISIBLE_DEVICES": "GPU-simulated-1", "NVIDIA_VISIBLE_DEVICES": "void"}
    for name in env:
        if name.startswith(RESERVED_ENV) and not name.startswith("FAIRY_"):
            assert env[name] == allowed.get(name, "")
    assert (env["FAIRY_SESSION"], env["FAIRY_URL"], env["FAIRY_TOKEN_FILE"]) == (session.name, "http://127.0.0.1:8420", "/run/fairy/token")


async def test_a_huge_environment_is_refused_in_words(here: Scene, engine: DockerEngine):
    with pytest.raises(EngineRefused, match="longer than Linux takes"):
        await engine.launch(a_session("true", env=tuple(HUGE)))
    assert here.containers() == []


async def test_an_honest_request_has_all_of_its_own(here: Scene, engine: DockerEngine):
    """The check itself would notice if it were too strict to say anything."""
    session = a_session("true", env=(("SEED", "7"),))
    detail = await built(here, engine, replace(session, request=replace(session.request, mounts=("data/deep",))))
    assert detail is not None
    check(detail, here, extra_mounts=frozenset({"/mnt/data/deep"}))
    assert variables(detail)["SEED"] == "7"


async def test_there_are_at_least_forty_of_them():
    assert len(NAMES + OWNERS + IMAGES + MOUNTS + WORKDIRS + COMMANDS + ENVS) >= 40
