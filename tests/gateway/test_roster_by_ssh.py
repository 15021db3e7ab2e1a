"""Changes while people are in: keys removed, sessions ending, the server away, the gateway replaced."""
import json
import os
import signal
import socket
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest
from local_terminal import LocalTerminal
from ssh_scene import LIMIT_S, make_key

from waits import until

pytestmark = pytest.mark.system


def test_a_key_removed_ends_its_connections_at_once_in_words_and_no_others(scene):
    other = scene.folder / "id_second"
    public = make_key(other)
    scene.house.change(people={"kim": [scene.public, public]})
    until(lambda: scene.ssh("true", key=other).returncode == 0, "the second key to be known")
    with (
        subprocess.Popen(scene.line("echo $$; cat", key=other), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stays,
        LocalTerminal(scene.line(options=("-t", "-o", "LogLevel=INFO"))) as screen,
    ):
        stays.stdout.readline()
        screen.until("$ ")
        began = time.monotonic()
        scene.house.change(people={"kim": [public]})
        screen.until("this key was removed")
        assert screen.ended() == 255
        assert time.monotonic() - began < 2
        assert scene.ssh("true").returncode == 255
        assert stays.poll() is None
        stays.communicate()


def test_a_user_who_is_shut_out_is_out_with_all_that_runs(scene):
    with scene.popen("echo $$; exec sleep 1000", options=("-o", "LogLevel=INFO")) as process:
        pid = int(process.stdout.readline())
        scene.house.change(people={})
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the command to end", limit_s=5)
        assert process.wait(LIMIT_S) == 255
    assert scene.ssh("true").returncode == 255


def test_a_key_added_is_good_at_once(scene):
    path = scene.folder / "id_new"
    public = make_key(path)
    assert scene.ssh("true", key=path).returncode == 255
    scene.house.change(people={"kim": [scene.public, public]})
    until(lambda: scene.ssh("true", key=path).returncode == 0, "the new key to be known", limit_s=2)


def test_a_terminal_is_warned_before_its_session_ends(scene):
    with LocalTerminal(scene.line(options=("-t",))) as screen:
        screen.until("$ ")
        soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        scene.house.change(endings=[{"session_id": "id-main", "owner": "kim", "name": "main", "ends_at": soon}])
        screen.until("fairy: session main ends in 5 min; `fairy keep main 2h` asks for more time")
        screen.type("echo go''es on\n")
        screen.until("goes on")


def test_a_terminal_is_told_once_that_something_is_asked_back(scene):
    with LocalTerminal(scene.line(options=("-t",))) as screen:
        screen.until("$ ")
        told = [{"session_id": "id-main", "words": "idle for 1 h. Use it, or: fairy keep main 2h"}]
        scene.house.change(notices=told)
        screen.until("fairy: idle for 1 h. Use it, or: fairy keep main 2h")
        scene.house.change(notices=told)
        screen.type("echo go''es on\n")
        assert "idle" not in screen.until("goes on")


def test_what_is_open_goes_on_while_the_server_restarts_and_logins_wait(scene):
    with scene.popen("echo ready; cat") as held:
        held.stdout.readline()
        scene.house.stop()
        held.stdin.write(b"still here\n")
        held.stdin.flush()
        assert held.stdout.readline() == b"still here\n"
        with LocalTerminal(scene.line(options=("-t",))) as screen:
            screen.until("fairy: the server is restarting; your session goes on, please wait")
            scene.house.start()
            screen.until("$ ")
        held.communicate()


def test_a_server_that_comes_back_elsewhere_is_found(scene):
    scene.house.stop()
    scene.house.port = 0
    scene.house.start()
    assert scene.ssh("echo found").stdout == b"found\n"


def test_a_gateway_restarted_without_a_server_asks_people_to_wait_and_lets_them_in_when_it_is_back(own_scene):
    scene = own_scene
    scene.house.stop()
    scene.start()
    with scene.popen("echo in", options=("-o", "LogLevel=INFO")) as process:
        lines = iter(process.stderr.readline, b"")
        assert any(b"the server is restarting" in line for line in lines)
        scene.house.start()
        assert process.communicate(timeout=LIMIT_S)[0] == b"in\n"


def test_host_keys_are_made_once_and_kept(own_scene):
    scene = own_scene.start()
    before = {path.name: path.read_bytes() for path in (scene.data / "ssh").glob("host_*")}
    assert {name: oct((scene.data / "ssh" / name).stat().st_mode)[-3:] for name in before} == {"host_ed25519": "600", "host_rsa": "600"}
    assert scene.ssh("true").returncode == 0
    port = scene.port
    scene.process.send_signal(signal.SIGTERM)
    assert scene.process.wait(LIMIT_S) == 0
    scene.start(port=port)
    assert {path.name: path.read_bytes() for path in (scene.data / "ssh").glob("host_*")} == before
    assert scene.ssh("true", options=("-o", "StrictHostKeyChecking=yes")).returncode == 0


def test_a_new_gateway_takes_the_port_and_the_old_one_ends_with_its_last_visitor(own_scene):
    scene = own_scene.start()
    old, port = scene.process, scene.port
    with scene.popen("echo ready; cat") as held:
        held.stdout.readline()
        scene.process = scene.spawn(port=port)
        until(lambda: scene.noted.get("pid") == scene.process.pid, "the new one to listen")
        assert scene.port == port
        assert scene.ssh("echo new").stdout == b"new\n"
        assert old.poll() is None
        held.stdin.write(b"old goes on\n")
        held.stdin.flush()
        assert held.stdout.readline() == b"old goes on\n"
        held.communicate()
    assert old.wait(LIMIT_S) == 0
    assert scene.noted["pid"] == scene.process.pid


def test_sigterm_ends_nobody_however_often_and_sigint_everybody_in_words(own_scene):
    scene = own_scene.start()
    with scene.popen("echo $$; exec sleep 1000", options=("-o", "LogLevel=INFO")) as held:
        pid = int(held.stdout.readline())
        scene.process.send_signal(signal.SIGTERM)
        until(lambda: not listens(scene), "the port to be closed")
        scene.process.send_signal(signal.SIGTERM)
        assert scene.ssh("true").returncode == 255  # and time for it to heed the second one
        assert held.poll() is None
        scene.process.send_signal(signal.SIGINT)
        assert scene.process.wait(LIMIT_S) == 0
        assert b"the SSH gateway is stopped" in held.communicate()[1]
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the command to end")
    assert scene.noted == {}


def listens(scene) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", scene.port)) == 0


def test_a_note_about_somebody_else_harms_nobody(own_scene):
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        (own_scene.data / "ssh" / "gateway.json").write_text(json.dumps({"pid": bystander.pid, "birth": "1", "port": 1}))
        own_scene.process = own_scene.spawn()
        until(lambda: own_scene.noted.get("pid") == own_scene.process.pid, "the gateway to listen")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_port_that_is_taken_is_told_in_words(own_scene):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = own_scene.spawn(port=taken.getsockname()[1])
        assert process.wait(LIMIT_S) == 1
    assert "is taken" in own_scene.log
    assert "Traceback" not in own_scene.log


def test_a_damaged_host_key_is_told_in_words_and_not_replaced(own_scene):
    key = own_scene.data / "ssh" / "host_ed25519"
    key.write_text("nonsense")
    assert own_scene.spawn().wait(LIMIT_S) == 1
    assert "is damaged" in own_scene.log
    assert key.read_text() == "nonsense"
