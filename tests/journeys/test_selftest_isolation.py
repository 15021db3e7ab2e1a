"""The isolation self-test as an admin runs it: on simulated GPUs in words, and in real Podman containers on the stub driver for true."""
import json
import shutil
import tempfile
import uuid
from pathlib import Path

import pytest
from bench.server import LiveServer

from daemons import make_podman, needs, running
from docker_settings import docker_settings
from fake_cuda import Card, FakeCuda
from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.client.errors import Problem, ServerNotReached
from waits import until, wait_for_state

pytestmark = pytest.mark.slow
GIB = 2**30
CDI = Path("/var/run/cdi")
INSIDE = "/usr/lib/x86_64-linux-gnu"
SETTINGS = """
[selftest]
nightly = "off"
"""
# They ask the share library, or are asked of the driver by it. The others go past it, and nothing else holds them where GPUs are shared in turns.
HELD = ("cuMemAlloc", "cuMemAllocAsync", "cuMemCreate", "cuArray3DCreate", "a second process", "a forked child", "4 processes at once", "environment cleared")
THROUGH = ("a changed loader", "a changed loader, 4 processes", "a static binary with a loader in memory")


@pytest.fixture
def beside_a_real_gpu(tmp_path):
    """A server with simulated GPUs alone, on a machine that has a real one."""
    nvml = FakeNvml(tmp_path)
    nvml.write(FakeMachine((FakeGpu(),)))
    live = LiveServer(tmp_path / "fairy", "gpus.simulate = '1xA100-40GB'\n")
    live.env |= nvml.env
    with live:
        yield live


@pytest.mark.parametrize("where", ["server", "beside_a_real_gpu"])
def test_with_simulated_gpus_alone_there_is_nothing_to_test_and_that_is_no_failure(request, where):
    server = request.getfixturevalue(where)
    assert server.fairy("selftest", "isolation").stdout == "No real GPU here; nothing to test.\n"
    done = server.fairy("selftest", "isolation", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    simulated = server.client().gpus()[0]["uuid"]
    refused = server.fairy("selftest", "isolation", "--gpu", simulated)
    assert refused.returncode == 3
    assert "simulated: there is nothing to test" in refused.stderr
    assert "Nothing was tested yet" in server.fairy("selftest", "show").stdout


def test_only_admins_test_and_everybody_sees_what_was_found(server, make_user):
    user = make_user("ann")
    assert user.isolation_tests() == []
    with pytest.raises(Problem, match="not for ann") as refused:
        list(user.test_isolation())
    assert refused.value.status == 403


class Box:
    """A machine with one GPU, of the stub driver, that comes into containers by CDI."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self.gpu = f"GPU-{uuid.uuid4()}"
        folder.chmod(0o777)  # every session's uid keeps the stub's accounts there
        self.cuda, self.nvml = FakeCuda(folder, (Card(self.gpu, 8 * GIB),)), FakeNvml(folder)
        self.nvml.write(FakeMachine((FakeGpu(uuid=self.gpu, memory_mib=8 * 1024),)))
        self.folder, self.spec = folder, CDI / f"fairy-test-{self.gpu}.json"
        self.live = LiveServer(folder / "fairy", docker_settings(socket, SETTINGS, cpus=8, memory="24GiB"), engine="docker")
        self.live.env |= self.nvml.env

    def describe(self) -> None:
        CDI.mkdir(exist_ok=True)
        libraries = {self.cuda.library: "libcuda.so.1", self.nvml.library: "libnvidia-ml.so.1"}
        mounts = [{"hostPath": str(path.resolve()), "containerPath": f"{INSIDE}/{name}", "options": ["ro", "bind"]} for path, name in libraries.items()]
        mounts.append({"hostPath": str(self.folder), "containerPath": str(self.folder), "options": ["rw", "bind"]})
        stub = {name: value for name, value in {**self.cuda.env, **self.nvml.env}.items() if name.startswith(("FAKE_", "FAIRY_FAKE_"))}
        edits = {"mounts": mounts, "env": [f"{name}={value}" for name, value in stub.items()]}
        devices = [{"name": self.gpu, "containerEdits": edits}]
        self.spec.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}))


@pytest.fixture(scope="module")
def box():
    needs("podman", "conmon", "nft", package="podman nftables")
    folder = Path(tempfile.mkdtemp(prefix="fairy-iso-"))
    with running(make_podman) as daemon:
        made = Box(folder, daemon.socket)
        made.describe()
        try:
            with made.live as live:
                done = live.fairy("share", "set", "*", "--by", "time")
                assert done.returncode == 0, done.stderr
                yield made
        finally:
            made.spec.unlink()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def found(box):
    done = box.live.fairy("selftest", "isolation", "--json", timeout=300)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr, box.live.log[-3000:])
    (test,) = json.loads(done.stdout)
    return test


@pytest.mark.system
def test_two_sessions_on_one_gpu_tell_what_holds_and_what_is_only_counted(found, box):
    assert (found["node"], found["gpu"], found["sharing"], found["driver"]) == ("box", box.gpu, "time", "580.159.04")
    verdicts = {attempt["way"]: attempt["verdict"] for attempt in found["attempts"]}
    assert {way: verdicts[way] for way in HELD} == dict.fromkeys(HELD, "enforced"), found
    assert {way: verdicts[way] for way in THROUGH} == dict.fromkeys(THROUGH, "accounted"), found
    assert (found["memory"], found["devices"]) == ("accounted", "enforced")
    assert verdicts["its own share"] == "enforced"


@pytest.mark.system
def test_its_sessions_are_gone_afterwards(found, box):
    client = box.live.client()
    until(lambda: not list(client.sessions(all_users=True)), "its sessions to end")
    ended = [session for session in client.sessions(ended=True) if session["name"].startswith("selftest-")]
    assert {session["why"] for session in ended} == {"the self-test is over"}


@pytest.mark.system
def test_the_pages_say_what_was_found(found, box):
    client = box.live.client()
    assert [test["gpu"] for test in client.isolation_tests()] == [box.gpu]
    assert "memory: accounted" in box.live.fairy("selftest", "show").stdout
    client.submit({"name": "half", "gpus": "0.5", "command": ["sleep", "600"]})
    (gpu,) = wait_for_state(client, "half", "RUNNING", limit_s=60)["seat"]["gpus"]
    assert "memory" in gpu["accounted"]
    busy = box.live.fairy("selftest", "isolation")
    assert (busy.returncode, "untried: sessions are on it" in busy.stdout) == (0, True)
    client.stop("half")
    until(lambda: not list(client.sessions()), "it to end", 60)


@pytest.mark.system
def test_a_server_killed_in_the_middle_leaves_no_session_behind(found, box):
    client, stream = box.live.client(), box.live.client().test_isolation()
    assert "words" in next(stream)
    until(lambda: [one for one in client.sessions() if one["name"].startswith("selftest-") and one["state"] == "RUNNING"], "its sessions", 60)
    box.live.kill()
    with pytest.raises(ServerNotReached):
        list(stream)
    box.live.start()
    again = box.live.client()
    until(lambda: not list(again.sessions(all_users=True)), "the next server to end them", 60)
    whys = [one["why"] for one in again.sessions(ended=True) if one["name"].startswith("selftest-")]
    assert "left over from a self-test that was cut short" in whys
