"""Docker restarted, stopped for a while, killed, under the server as it is shipped: right ten seconds after it is back, and never two of anything."""
import contextlib
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.server import LiveServer
from lengths import length_s

from daemons import RealDaemon, make_docker, running
from docker_settings import docker_settings
from gpufairy.client.errors import Problem
from gpufairy.engines.docker_words import BEGUN_AGAIN
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

AWAY_S = length_s(short=5, full=60)
RIGHT_AFTER_S = 10


@pytest.fixture(scope="module")
def own_docker():
    """As the doctor advises it: containers outlive the daemon."""
    with running(make_docker, "--live-restore") as daemon:
        yield daemon


@pytest.fixture
def server(own_docker: RealDaemon):
    folder = Path(tempfile.mkdtemp(prefix="fairy-fd-"))
    settings = docker_settings(own_docker.socket, cpus=8, memory="16GiB")
    with LiveServer(folder, settings, ("--simulate", "2xA100-40GB"), engine="docker") as live:
        yield live
    shutil.rmtree(folder, ignore_errors=True)


def containers(daemon: RealDaemon) -> dict[str, tuple[str, int]]:
    """By session: the container and its first process, as Docker has them. Two of one session are a fault."""
    found: dict[str, tuple[str, int]] = {}
    for one in daemon.containers(**{"gpufairy.role": "session"}):
        if one["State"] == "running":
            name = one["Labels"]["gpufairy.name"]
            assert name not in found, f"{name} runs twice"
            found[name] = one["Id"], daemon.container(one["Id"])["State"]["Pid"]
    return found


@contextlib.contextmanager
def away(daemon: RealDaemon, number: int) -> Iterator[None]:
    daemon.signal(number)
    try:
        yield
    finally:
        daemon.start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_docker_that_goes_and_comes_back_finds_all_as_it_was(server, own_docker, number):
    client = server.client()
    client.submit({"name": "stays", "gpus": "0.5", "command": ["sleep", "3600"]})
    client.submit({"name": "ends", "gpus": "0.25", "command": ["sh", "-c", "until [ -e ~/go ]; do sleep 0.2; done"]})
    for name in ("stays", "ends"):
        wait_for_state(client, name, "RUNNING", limit_s=60)
    before = containers(own_docker)
    home = server.data / "sessions" / "home" / client.session("stays")["owner"]
    with away(own_docker, number):
        with pytest.raises(Problem, match="gave no answer") as told:
            client.submit({"name": "in-vain", "gpus": "0.25", "command": ["true"]})
        assert told.value.status == 503
        (home / "go").touch()
        began = time.monotonic()
        while time.monotonic() - began < AWAY_S:
            assert client.session("stays")["state"] in ("RUNNING", "LOST"), "declared dead while nobody could know"
            time.sleep(0.5)
    assert wait_for_state(client, "stays", "RUNNING", limit_s=RIGHT_AFTER_S)["attempt"] == 1
    assert wait_for_state(client, "ends", "ENDED", limit_s=RIGHT_AFTER_S)["outcome"] == "done"
    client.submit({"name": "next", "gpus": "0.25", "command": ["sh", "-c", "echo once >> ~/ran"]})
    assert wait_for_state(client, "next", "ENDED", limit_s=60)["outcome"] == "done"
    assert (home / "ran").read_text() == "once\n"
    (home / "ran").unlink()
    (home / "go").unlink()
    assert containers(own_docker)["stays"] == before["stays"]


def still_there(*command: str) -> bool:
    wanted = "\0".join((*command, "")).encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return wanted in found


def killed_as_one_begins(server, docker: RealDaemon, number: int, *, stopped: bool) -> dict[str, Any]:
    """Within a millisecond of its command's first deed: often Docker has not written down yet that it started it. As it is afterwards."""
    client, sleep = server.client(), ("sleep", str(40_000 + number))
    witness = f"echo once >> ~/ran.$FAIRY_SESSION_ID; exec {' '.join(sleep)}"
    session_id = client.submit({"name": "begins", "gpus": "0.5", "command": ["sh", "-c", witness]})["id"]
    mark = server.data / "sessions" / "home" / "admin" / f"ran.{session_id}"
    deadline = time.monotonic() + 20
    while not mark.exists():
        assert time.monotonic() < deadline, client.session(session_id)
    with away(docker, signal.SIGKILL):
        if stopped:
            client.stop(session_id)
    found = wait_for_state(client, session_id, "RUNNING", "ENDED", limit_s=30) if not stopped else {}
    if found.get("state") == "RUNNING":
        client.stop(session_id)
    last = wait_for_state(client, session_id, "ENDED", limit_s=60)
    until(lambda: not still_there(*sleep), "its process to end")
    assert mark.read_text() == "once\n", "begun twice"
    assert containers(docker) == {}
    return last


def test_a_docker_that_forgets_what_it_started_begins_none_twice(server, own_docker):
    for number in range(12):
        last = killed_as_one_begins(server, own_docker, number, stopped=False)
        if last["outcome"] == "lost":
            assert last["why"] == BEGUN_AGAIN
            return
    pytest.fail("Docker never forgot one: nothing was tried")


def test_a_docker_that_forgets_what_it_started_leaves_nothing_when_that_is_stopped(server, own_docker):
    for number in range(100, 112):
        assert killed_as_one_begins(server, own_docker, number, stopped=True)["outcome"] == "stopped"
        if "the container engine had forgotten that" in server.log:
            return
    pytest.fail("Docker never forgot one: nothing was tried")


def porters(session_id: str) -> list[Path]:
    """First processes of its containers, whoever knows of them."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "cmdline").read_bytes().startswith(b"/opt/fairy/bin/porter\0") and session_id.encode() in (path / "environ").read_bytes():
                found.append(path)
    return found


def test_an_interactive_session_that_docker_forgot_begins_again_alone(server, own_docker):
    client = server.client()
    for _ in range(12):
        session_id = client.submit({"name": "desk", "kind": "interactive", "gpus": "0.5"})["id"]
        began, deadline = server.data / "sessions" / "run" / f"{session_id}.1" / "began", time.monotonic() + 20
        while not (began.exists() and began.read_text() == "ran\n"):
            assert time.monotonic() < deadline, client.session(session_id)
        with away(own_docker, signal.SIGKILL):
            pass
        wait_for_state(client, session_id, "RUNNING", limit_s=30)
        (name,) = containers(own_docker)
        assert (name, len(porters(session_id))) == ("desk", 1)
        client.stop(session_id)
        wait_for_state(client, session_id, "ENDED", limit_s=60)
        assert porters(session_id) == []
        if "the container engine had forgotten that" in server.log:
            return
    pytest.fail("Docker never forgot one: nothing was tried")


def test_a_docker_killed_again_and_again_while_sessions_start_starts_none_twice(server, own_docker):
    client = server.client()
    witness = "mkdir ~/began.$FAIRY_SESSION_ID || echo $FAIRY_SESSION_ID >> ~/twice; exec sleep 1"
    stop = threading.Event()

    def again_and_again() -> None:
        while not stop.wait(1.5):
            own_docker.signal(signal.SIGKILL)
            own_docker.start()

    thread = threading.Thread(target=again_and_again)
    thread.start()
    try:
        asked = client.submit({"name": "many", "gpus": "0", "cpus": "0.5", "memory": "64MiB", "command": ["sh", "-c", witness]}, count=12)
        time.sleep(length_s(short=10, full=60))
    finally:
        stop.set()
        thread.join(60)
    until(lambda: all(s["state"] == "ENDED" for s in client.sessions(ended=True)), "all to end", 120)
    ended = {s["id"]: s for s in client.sessions(ended=True)}
    assert {one["id"] for one in asked["items"]} <= ended.keys()
    homes = list((server.data / "sessions" / "home").glob("*"))
    assert not [path for home in homes for path in home.glob("twice")], "one ran twice"
    began = {path.name.removeprefix("began.") for home in homes for path in home.glob("began.*")}
    done = {session_id for session_id, s in ended.items() if s["outcome"] == "done"}
    assert done <= began
    assert containers(own_docker) == {}
