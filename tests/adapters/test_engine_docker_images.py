"""Images on real daemons: listed, looked into, made from sessions; and real devices by CDI."""
import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from docker_scene import Scene, said, scene
from engine_waits import read_to_end, started, stop_all, until_exited, until_running, whole_log

from builders import a_gpu_seat, a_seat, a_session
from daemons import RealDaemon
from gpufairy.core.errors import EngineRefused
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.engines import docker_launch, docker_shelf
from gpufairy.engines.contract import Command
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.docker_shelf import remove_left
from images import BUSYBOX_IMAGE, SCRATCH_IMAGE, Layer, image_tar
from registry import running_registry

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", params=["docker", "podman"])
def here(request: pytest.FixtureRequest, docker_tools: Path) -> Iterator[Scene]:
    with scene(request.getfixturevalue(f"{request.param}_daemon"), docker_tools) as made:
        yield made


@pytest.fixture
async def engine(here: Scene) -> AsyncIterator[DockerEngine]:
    async with started(here.engine()) as running:
        yield running
        await stop_all(running)
        for workload in await running.list_mine():
            await running.clear(workload.id)


def of_image(session: Session, image: str) -> Session:
    return replace(session, request=replace(session.request, image=image))


async def opened(engine: DockerEngine, session: Session, *argv: str) -> str:
    stream = await engine.open(workload_id(session), Command(argv))
    try:
        return (await read_to_end(stream.stdout)).decode()
    finally:
        await stream.close()


async def test_images_are_listed_with_size_and_cuda(engine: DockerEngine, here: Scene):
    here.daemon.load(image_tar("fairy-test/cuda:12", Layer(), {"Env": ["CUDA_VERSION=12.4.1"]}))
    found = {image.name: image for image in await engine.shelf.images()}
    assert found[BUSYBOX_IMAGE].size_bytes > 100_000
    assert found[BUSYBOX_IMAGE].cuda is None
    assert found["fairy-test/cuda:12"].cuda == "12.4.1"
    assert not any(name.startswith(("gpufairy/", "localhost/gpufairy/")) for name in found)


async def test_an_images_own_users_and_shell_are_known(engine: DockerEngine, here: Scene):
    layer = Layer()
    for folder in ("bin", "etc"):
        layer.folder(folder)
    layer.file("bin/bash", b"#!/bin/sh\n", 0o755)
    layer.file("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\ndata:x:777:777::/data:/bin/sh\nstudent1:x:5:5::/evil:/bin/sh\n")
    here.daemon.load(image_tar("fairy-test/users:1", layer))
    session = of_image(a_session(), "fairy-test/users:1")
    await engine.launch(session)
    passwd = (here.places.run(str(workload_id(session))) / "passwd").read_text()
    assert passwd == "root:x:0:0:root:/root:/bin/bash\ndata:x:777:777::/data:/bin/sh\nstudent1:x:20001:20001:student1:/home/student1:/bin/bash\n"
    assert (await engine.door(workload_id(session))).shell == "/bin/bash"


async def test_an_image_with_nothing_in_it_has_our_shell_and_tools(engine: DockerEngine):
    session = of_image(a_session(), SCRATCH_IMAGE)
    await engine.launch(session)
    door = await engine.door(workload_id(session))
    assert door.shell == "/opt/fairy/bin/bash"
    assert await opened(engine, session, door.shell, "-c", "echo $HOME; cd; pwd; echo ~student1") == "/home/student1\n/home/student1\n/home/student1\n"


def an_odd_image(here: Scene, target: str) -> str:
    """Its list of users is a link to somewhere."""
    layer = Layer()
    layer.folder("etc")
    layer.link("etc/passwd", target)
    name = f"fairy-test/odd:{target.rpartition('/')[2]}"
    here.daemon.load(image_tar(name, layer))
    return name


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/no/such/thing", "../../../../etc/shadow"])
async def test_an_image_that_misleads_is_started_all_the_same(engine: DockerEngine, here: Scene, target: str):
    session = of_image(a_session(), an_odd_image(here, target))
    await engine.launch(session)
    await until_running(engine, session)


async def test_an_image_that_cannot_be_started_is_refused_and_leaves_nothing(engine: DockerEngine, here: Scene):
    with pytest.raises(EngineRefused, match="the container engine said no"):
        await engine.launch(of_image(a_session(), an_odd_image(here, "/etc/passwd")))
    assert here.containers() == []


async def test_an_image_that_leads_into_proc_harms_nobody(engine: DockerEngine, here: Scene):
    """runc refuses to mount there, crun stays inside: either will do."""
    session = of_image(a_session(), an_odd_image(here, "/proc/1/environ"))
    try:
        await engine.launch(session)
    except EngineRefused:
        assert here.containers() == []
    else:
        await until_running(engine, session)


async def test_a_session_becomes_an_image_without_its_secrets(engine: DockerEngine, here: Scene):
    session = a_session(env=(("API_KEY", "canary-77"),), owner="student1")
    root_free = of_image(session, BUSYBOX_IMAGE)
    await engine.launch(root_free)
    await until_running(engine, root_free)
    await opened(engine, session, "sh", "-c", "echo installed > /tmp/tool; echo private > ~/secret; echo out > /results/x")
    made = await engine.shelf.commit(workload_id(session), "lab/tool:1")
    assert (made.name, made.id.removeprefix("sha256:") != "", made.size_bytes > 0) == ("lab/tool:1", True, True)
    detail = here.daemon.ask("GET", "/images/lab/tool:1/json")
    everything = [here.daemon.ask("GET", f"/images/{image['Id']}/json") for image in here.daemon.ask("GET", "/images/json?all=1")]
    assert "canary-77" not in json.dumps(everything)
    assert (detail["Config"]["Labels"] or {}).get("gpufairy.launch", "") == ""
    assert detail["Config"]["User"] in ("0", "", "root")
    assert not detail["Config"]["Entrypoint"]
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in detail["Config"]["Env"]
    assert {"FAIRY_SESSION=", "API_KEY="} >= {variable for variable in detail["Config"]["Env"] if variable.startswith(("FAIRY_SESSION=", "API_KEY"))}
    later = of_image(a_session("sh", "-c", "cat /tmp/tool; ls /results; cat /run/fairy/token | wc -c"), "lab/tool:1")
    assert (await said(engine, later)).splitlines()[0] == "installed"
    other = of_image(a_session("sh", "-c", "ls -A /home/student1; echo end", owner="student2"), "lab/tool:1")
    assert "secret" not in await said(engine, other)
    assert [workload.id for workload in await engine.list_mine()].count(workload_id(session)) == 1


@pytest.mark.parametrize("name", ["../x", "A B", "", "x?y"])
async def test_an_image_is_not_made_under_a_name_that_is_none(engine: DockerEngine, name: str):
    session = a_session()
    await engine.launch(session)
    with pytest.raises(EngineRefused):
        await engine.shelf.commit(workload_id(session), name)


async def test_nothing_is_made_of_what_is_not_there(engine: DockerEngine):
    with pytest.raises(EngineRefused):
        await engine.shelf.commit(WorkloadId("nobody", 1), "lab/x:1")


@pytest.fixture
def a_device() -> Iterator[str]:
    """A made-up device: /dev/null under another name, and a variable."""
    folder = Path("/var/run/cdi")
    folder.mkdir(exist_ok=True)
    path = folder / f"fairytest-{os.getpid()}.json"
    kind = f"fairytest{os.getpid()}.example/gpu"
    edits = {"env": ["FAIRYTEST=yes"], "deviceNodes": [{"path": "/dev/fairytest", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3}]}
    path.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": [{"name": "GPU-real-0", "containerEdits": edits}]}))
    yield kind
    path.unlink()


async def test_a_real_device_comes_in_by_cdi_with_all_limits_on(here: Scene, a_device: str, monkeypatch: pytest.MonkeyPatch):
    if here.daemon.name != "podman":
        pytest.skip("docker takes CDI devices from version 25 on")
    offered, named = docker_launch.offered_devices, docker_launch.cdi_devices
    monkeypatch.setattr(docker_launch, "offered_devices", lambda folders: offered(folders, a_device))
    monkeypatch.setattr(docker_launch, "cdi_devices", lambda gpus, names: named(gpus, names, a_device))
    seat = a_seat("here", a_gpu_seat(0, uuid="GPU-real-0", simulated=False))
    async with started(here.engine()) as engine:
        script = "ls -la /dev/fairytest; echo $FAIRYTEST $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; pwd; cat /proc/self/oom_score_adj"
        session = a_session("sh", "-c", script, seat=seat)
        text = await said(engine, session)
        assert "1,   3" in text
        assert "yes GPU-real-0 void" in text
        assert f"CapEff:\t{'0' * 16}\nNoNewPrivs:\t1\nSeccomp:\t2\n/home/student1\n300\n" in text
        host = here.inspect(session)["HostConfig"]
        assert (host["Memory"], host["PidsLimit"], host["NanoCpus"]) == (seat.memory_bytes, 4096, 500_000_000)
        assert (await until_exited(engine, session)).session == session
        await engine.clear(workload_id(session))


async def test_a_real_gpu_that_cannot_be_given_is_refused_in_words(engine: DockerEngine):
    session = a_session("true", seat=a_seat("here", a_gpu_seat(77, uuid="GPU-none", simulated=False)))
    with pytest.raises(EngineRefused, match="GPU") as refused:
        await engine.launch(session)
    assert "nvidia-ctk cdi generate" in refused.value.next_step
    assert await whole_log(engine, session, follow=False) == b""


async def test_a_missing_image_is_pulled_once_for_all_who_wait_and_says_how_far_it_is(docker_daemon: RealDaemon, docker_tools: Path):
    with running_registry() as registry, scene(docker_daemon, docker_tools) as here:
        async with started(here.engine(pull=True)) as engine:
            sessions = [of_image(a_session(), registry.name) for _ in range(3)]
            launching = [asyncio.create_task(engine.launch(session)) for session in sessions]
            words = await asyncio.wait_for(anext(aiter(engine.shelf.pull(registry.name))), 20)
            assert words.startswith(f"pulling {registry.name}")
            assert "quick" in await said(engine, a_session("echo", "quick"))  # nobody else waits for it
            registry.go_on.set()
            await asyncio.wait_for(asyncio.gather(*launching), 30)
            assert registry.pulls == 1
            assert (await engine.shelf.image(registry.name)).cuda == "12.4.1"
            await stop_all(engine)
            for session in sessions:
                await engine.clear(workload_id(session))
            await engine.shelf.remove(registry.name)
            assert await engine.shelf.image(registry.name) is None


async def test_a_pull_that_is_given_up_by_one_goes_on_for_the_others(docker_daemon: RealDaemon, docker_tools: Path):
    with running_registry() as registry, scene(docker_daemon, docker_tools) as here:
        async with started(here.engine(pull=True)) as engine:
            given_up, patient = (asyncio.create_task(engine.launch(of_image(a_session(), registry.name))) for _ in range(2))
            await asyncio.wait_for(anext(aiter(engine.shelf.pull(registry.name))), 20)
            given_up.cancel()
            await asyncio.wait([given_up])
            registry.go_on.set()
            await asyncio.wait_for(patient, 30)
            assert len(await engine.list_mine()) == 1
            await stop_all(engine)


async def test_what_a_server_left_half_made_goes_when_it_is_old(engine: DockerEngine, here: Scene, monkeypatch: pytest.MonkeyPatch):
    """One that died between a commit and the image's name, or while it looked into one."""
    session = a_session("sleep", "1000")
    await engine.launch(session)
    await until_running(engine, session)
    [container] = here.daemon.containers(**{"gpufairy.session": session.id})
    made = here.daemon.ask("POST", f"/commit?container={container['Id']}", {})["Id"].removeprefix("sha256:")
    look = here.daemon.ask("POST", "/containers/create?name=fairy-look-left", {"Image": BUSYBOX_IMAGE, "Labels": {"gpufairy.role": "look"}})["Id"]
    await remove_left(engine._daemon)
    assert {made, look} <= left_on(here.daemon), "what is young may be another server's"
    monkeypatch.setattr(docker_shelf, "LEFT_AFTER_S", -1.0)
    await remove_left(engine._daemon)
    assert left_on(here.daemon).isdisjoint({made, look})
    assert (await engine.list_mine())[0].alive


def left_on(daemon: RealDaemon) -> set[str]:
    images = {image["Id"].removeprefix("sha256:") for image in daemon.ask("GET", "/images/json?all=1")}
    return images | {container["Id"] for container in daemon.ask("GET", "/containers/json?all=1")}
