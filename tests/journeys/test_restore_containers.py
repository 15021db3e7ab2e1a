"""The drill with containers: the data folder is lost while sessions run, a backup of before is restored, and nobody inside notices."""
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import psutil
import pytest
from bench.server import LiveServer
from test_ssh import Person

from daemons import RealDaemon
from docker_settings import docker_settings
from gpufairy.client import Fairy
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def live(docker_daemon: RealDaemon):
    folder = Path(tempfile.mkdtemp(prefix="fairy-r-"))
    settings = docker_settings(docker_daemon.socket)
    server = LiveServer(folder, settings, ("--simulate", "2xA100-40GB"), engine="docker", ssh=True)
    yield server.start()
    if server.process is None:
        server.start()
    server.stop_all()
    shutil.rmtree(folder, ignore_errors=True)


def held(ann: Person, docker: RealDaemon, name: str) -> tuple[str, int]:
    """A session whose command runs: its container, and the first process in it. One that just begins still needs what its folders hold."""
    ann.client.submit({"name": name, "gpus": "0.5", "memory": "64MiB", "cpus": 0.05, "command": ["sh", "-c", "touch /opt/made; exec sleep 3600"]})
    wait_for_state(ann.client, name, "RUNNING")
    found, pid = container_of(docker, name)
    own = psutil.Process(pid)
    until(lambda: "sleep" in {one.name() for one in (own, *own.children(recursive=True))}, "its command to begin")
    return found, pid


def container_of(docker: RealDaemon, name: str) -> tuple[str, int]:
    [found] = docker.containers(**{"gpufairy.owner": "ann", "gpufairy.name": name})
    return found["Id"], docker.container(found["Id"])["State"]["Pid"]


def lose(live: LiveServer) -> None:
    """As when a disk dies: server and gateway are gone at once, and all that they had written."""
    gateway = json.loads((live.data / "ssh" / "gateway.json").read_text())["pid"]
    live.kill()
    os.kill(gateway, signal.SIGKILL)
    shutil.rmtree(live.data)


def test_a_lost_data_folder_is_restored_while_containers_run_and_all_of_them_are_adopted(live: LiveServer, docker_daemon: RealDaemon, tmp_path: Path):
    ann, admin = Person(live, "ann"), live.client()
    admin.set_quota({"of": "user:ann", "gpus": 2})
    ann.client.submit({"name": "done", "gpus": "1", "memory": "64MiB", "cpus": 0.05, "command": ["sleep", "1"]})
    older = held(ann, docker_daemon, "older")
    wait_for_state(ann.client, "done", "ENDED")
    ann.client.commit("older", "ann/tools:1")
    made = json.loads(live.fairy("backup", "--json").stdout)
    kept = shutil.copy(made["path"], tmp_path)
    before = what_is_kept(admin, ann.client)
    newer = held(ann, docker_daemon, "newer")

    lose(live)
    restored = live.fairy("restore", kept, "--data", str(live.data), "--config", str(live.folder / "fairy.toml"))
    assert "Restored to" in restored.stdout, restored.stderr
    live.start()

    admin, client = live.client(), ann.client  # with the token of then
    states = lambda: {one["name"]: (one["state"], one["why"]) for one in client.sessions()}  # noqa: E731
    until(lambda: {name for name, (state, _) in states().items() if state == "RUNNING"} == {"older", "newer"}, lambda: f"both to be adopted, not {states()}: {live.log[-3000:]}")
    assert (container_of(docker_daemon, "older"), container_of(docker_daemon, "newer")) == (older, newer)
    assert what_is_kept(admin, client) == before
    assert ("ann/tools:1" in before["images"], before["quotas"]) == (True, [("user:ann", 2)])
    assert client.session("done")["outcome"] == "done"
    assert next(row["held_part_us"] for row in admin.ledger(by="user")["items"] if row["name"] == "ann") > 0
    assert sorted(gpu["free_share"] for gpu in admin.gpus()) == [0, 1]
    # The shell that was mounted into it lay in that folder: what computes goes on, and whoever comes is told in words.
    assert b"'/opt/fairy/bin/bash' cannot be run in the session" in ann.ssh("true", session="newer").stderr


def what_is_kept(admin: Fairy, ann: Fairy) -> dict[str, object]:
    quotas = [(one["of"], one["gpus"]) for one in admin.quotas()]
    return {"users": admin.users(), "keys": ann.keys(), "quotas": quotas, "images": {one["name"] for one in ann.images()}}
