"""Real leaks on a real dockerd: what was removed or started by hand behind the server's back is put right, told, and harms nobody else."""
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.server import LiveServer

from daemons import RealDaemon
from docker_settings import docker_settings
from images import BUSYBOX_IMAGE
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]
SOON_S = 40


@pytest.fixture(scope="module")
def live(docker_daemon: RealDaemon) -> Iterator[LiveServer]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-l-"))
    settings = docker_settings(docker_daemon.socket)
    with LiveServer(folder, settings, ("--simulate", "2xA100-40GB"), engine="docker") as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


def start_session(live: LiveServer, name: str, *command: str) -> dict[str, Any]:
    live.client().submit({"name": name, "gpus": "1", "cpus": 1, "memory": "64MiB", "command": list(command)})
    return dict(wait_for_state(live.client(), name, "RUNNING"))


def test_the_probe_in_a_container_tells_a_gpu_that_its_cgroup_forbids_from_none_at_all(live, docker_daemon):
    """As after `systemctl daemon-reload`: the file is there, and the kernel says no."""
    loop = "while :; do /opt/fairy/bin/python3 -I -m gpufairy.devices.probe_open; sleep 1; done"
    session = start_session(live, "probes", "sh", "-c", loop)
    until(lambda: said_last(live, "probes") == b'{"open": null}', "it to find none", SOON_S)
    pid = str(docker_daemon.container(container_of(docker_daemon, session)["Id"])["State"]["Pid"])
    make = "mknod /dev/nvidia0 c 195 0 && chmod 666 /dev/nvidia0"
    subprocess.run(["nsenter", "-t", pid, "-m", "sh", "-c", make], check=True, timeout=30)
    until(lambda: said_last(live, "probes") == b'{"open": false}', "the kernel to say no", SOON_S)
    live.client().stop("probes")
    wait_for_state(live.client(), "probes", "ENDED")


def said_last(live: LiveServer, name: str) -> bytes:
    return b"".join(live.client().logs(name)).rstrip().rpartition(b"\n")[2]


def container_of(daemon: RealDaemon, session: dict[str, Any]) -> dict[str, Any]:
    [found] = daemon.containers(**{"gpufairy.session": session["id"]})
    return found


def started_by_hand(daemon: RealDaemon, labels: dict[str, str]) -> str:
    body = {"Image": BUSYBOX_IMAGE, "Cmd": ["sleep", "600"], "Entrypoint": None, "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
    made = str(daemon.ask("POST", "/containers/create", body)["Id"])
    daemon.ask("POST", f"/containers/{made}/start")
    return made


def runs(daemon: RealDaemon, container_id: str) -> bool:
    return any(one["Id"] == container_id and one["State"] == "running" for one in daemon.ask("GET", "/containers/json?all=1"))


def leaks(live: LiveServer) -> dict[str, Any]:
    return dict(json.loads(live.fairy("leaks", "--json").stdout))


def mended(live: LiveServer) -> list[str]:
    return [one["what"] for one in leaks(live)["mended"]]


def test_what_was_removed_and_started_by_hand_while_the_server_was_away_is_put_right_and_nothing_else_is_touched(live, docker_daemon):
    over = start_session(live, "over", "sleep", "600")
    labels = container_of(docker_daemon, over)["Labels"]
    live.client().stop("over")
    wait_for_state(live.client(), "over", "ENDED")
    lives, removed = start_session(live, "lives", "sleep", "600"), start_session(live, "removed", "sleep", "600")
    its_container = container_of(docker_daemon, lives)["Id"]
    live.stop()
    docker_daemon.ask("DELETE", f"/containers/{container_of(docker_daemon, removed)['Id']}?force=1")
    left, foreign = started_by_hand(docker_daemon, labels), started_by_hand(docker_daemon, {**labels, "gpufairy.server": "another-server"})
    live.start()
    ended = wait_for_state(live.client(), "removed", "ENDED")
    assert ended["outcome"] == "lost"
    until(lambda: not runs(docker_daemon, left), "the container whose session is over to be stopped", SOON_S)
    told = until(lambda: len(mended(live)) == 2 and mended(live), f"both to be told: {live.log[-2000:]}", SOON_S)
    assert any("session removed of " in one and one.endswith("the seat was given back") for one in told)
    assert any("ran what was session over of " in one and one.endswith("it was stopped") for one in told)
    assert runs(docker_daemon, foreign), "another server's is none of ours"
    assert runs(docker_daemon, its_container)
    assert live.client().session("lives")["state"] == "RUNNING"
    assert "Put right of late:" in live.fairy("leaks").stdout
    assert {event["what"] for event in live.client().events() if event["what"].startswith("leak_")} == {"leak_mended"}
    assert leaks(live)["items"] == []
    docker_daemon.ask("DELETE", f"/containers/{foreign}?force=1")
