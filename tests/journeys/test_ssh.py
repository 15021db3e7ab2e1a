"""By ssh into a session: the real server, the gateway that it starts, and the ssh that people have."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench.server import LiveServer

from waits import until, wait_for_state

pytestmark = pytest.mark.system

LIMIT_S = 60


class Person:
    """Somebody with a key of their own."""

    def __init__(self, live, name: str) -> None:
        self.live, self.name, self.key = live, name, live.folder / f"id_{name}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@home", "-f", self.key], check=True)
        with live.client() as admin:
            admin.add_user({"name": name, "role": "user"})
            self.client = live.client(admin.create_token({"user": name})["token"])
        self.fingerprint = self.client.add_key({"key": self.key.with_suffix(".pub").read_text()})["fingerprint"]
        # The gateway hears of the key in a moment; asked for a forward to nowhere it starts nothing.
        knows = self.line(options=("-N", "-W", "nowhere.invalid:1"))
        until(lambda: b"Permission denied" not in subprocess.run(knows, capture_output=True, timeout=LIMIT_S, check=False).stderr, "the key", limit_s=2)

    def line(self, *words: str, session: str = "", options: tuple[str, ...] = ()) -> list[str]:
        login = f"{self.name}+{session}" if session else self.name
        settings = ("IdentitiesOnly=yes", "StrictHostKeyChecking=accept-new", f"UserKnownHostsFile={self.live.folder}/known_hosts", "BatchMode=yes", "LogLevel=ERROR")
        known = [word for setting in settings for word in ("-o", setting)]
        return ["ssh", "-F", "/dev/null", *options, "-i", str(self.key), *known, "-p", str(ssh_port(self.live)), f"{login}@127.0.0.1", *words]

    def ssh(self, *words: str, session: str = "", **more):
        return subprocess.run(self.line(*words, session=session), capture_output=True, timeout=LIMIT_S, check=False, **more)


def ssh_port(live) -> int:
    return json.loads((live.data / "ssh" / "gateway.json").read_text())["port"]


@pytest.fixture(scope="module")
def live():
    if shutil.which("ssh") is None:
        pytest.skip("no ssh: apt-get install openssh-client")
    folder = Path(tempfile.mkdtemp(prefix="fairy-j-"))
    with LiveServer(folder, "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n", ("--simulate", "16xA100-40GB"), ssh=True) as started:
        yield started
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def kim(live):
    return Person(live, "kim")


def test_who_has_no_session_gets_one_and_lands_in_it(kim):
    done = kim.ssh("echo $FAIRY_SESSION; echo here > note; exit 6", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (6, b"main\n"), done.stderr
    assert kim.client.session("main")["state"] == "RUNNING"
    assert kim.ssh("cat note").stdout == b"here\n"


def test_a_named_session_is_reached_by_its_name_and_others_are_told(kim):
    kim.client.submit({"name": "train", "kind": "interactive", "gpus": "0"})
    assert kim.ssh("echo $FAIRY_SESSION", session="train").stdout == b"train\n"
    done = kim.ssh("true", session="trian")
    assert done.returncode == 255
    assert b"trian" in done.stderr
    assert b"train" in done.stderr


def test_fairy_ssh_needs_no_word_about_the_host_key(live):
    """As the admin who started the server, with a key of their own in the usual place."""
    home = live.folder / "home"
    (home / ".ssh").mkdir(parents=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / ".ssh" / "id_ed25519"], check=True)
    env = {**live.env, "HOME": str(home)}
    assert live.fairy("key", "add", env=env).returncode == 0
    # The real one, but with the key named: ssh asks the system where home is, not $HOME.
    (home / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F /dev/null -o BatchMode=yes -i {home}/.ssh/id_ed25519 "$@"\n')
    (home / "ssh").chmod(0o755)
    with live.client() as admin:
        admin.submit({"name": "adm", "kind": "interactive", "gpus": "0"})
    done = live.fairy("ssh", "adm", "echo", "in", env={**env, "PATH": f"{home}:{env['PATH']}"})
    assert (done.returncode, done.stdout) == (0, "in\n"), done.stderr


def test_nobody_comes_in_as_somebody_else(live, kim):
    lee = Person(live, "lee")
    stolen = [word.replace("lee@", "kim@") for word in lee.line("id")]
    assert subprocess.run(stolen, capture_output=True, timeout=LIMIT_S, check=False).returncode == 255
    assert lee.ssh("echo $USER").stdout == b"lee\n"


def test_files_go_both_ways_with_no_session_at_all(live):
    park = Person(live, "park")
    words = park.line()
    options = [*words[1 : words.index("-p")], "-P", str(ssh_port(live))]
    batch = b"put /etc/hostname sent\nget sent %b\n" % os.fsencode(live.folder / "back")
    done = subprocess.run(["sftp", *options, "-b", "-", "park@127.0.0.1"], input=batch, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert (live.folder / "back").read_bytes() == Path("/etc/hostname").read_bytes()
    assert list(park.client.sessions()) == []


def test_a_key_removed_in_mid_session_ends_it_within_seconds(live):
    choi = Person(live, "choi")
    with subprocess.Popen(choi.line("echo $$; exec sleep 1000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as held:
        pid = int(held.stdout.readline())
        choi.client.remove_key(choi.fingerprint)
        assert held.wait(5) == 255
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the command to end", limit_s=5)
    assert choi.ssh("true").returncode == 255


def test_a_user_shut_out_is_out_at_once(live, kim):
    jung = Person(live, "jung")
    with subprocess.Popen(jung.line("echo in; exec sleep 1000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as held:
        held.stdout.readline()
        with live.client() as admin:
            admin.change_user("jung", {"disabled": True})
        assert held.wait(5) == 255
    assert kim.ssh("true").returncode == 0


def test_a_session_that_is_stopped_takes_its_shells_along(live):
    yoon = Person(live, "yoon")
    with subprocess.Popen(yoon.line("echo $$; exec sleep 1000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as held:
        pid = int(held.stdout.readline())
        yoon.client.stop("main")
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the command to end", limit_s=15)
        held.wait(LIMIT_S)


def test_a_restart_of_the_server_cuts_no_shell(live, kim):
    port = ssh_port(live)
    with subprocess.Popen(kim.line("echo $$; exec cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
        held.stdout.readline()
        live.kill()
        assert port == ssh_port(live)
        held.stdin.write(b"while it is away\n")
        held.stdin.flush()
        assert held.stdout.readline() == b"while it is away\n"
        live.start()
        assert kim.ssh("echo after").stdout == b"after\n"
        held.stdin.write(b"and after\n")
        held.stdin.flush()
        assert held.stdout.readline() == b"and after\n"
        held.communicate()


def test_the_gateways_token_and_log_are_the_servers_alone(live, kim):
    folder = live.data / "ssh"
    token = (folder / "gateway.token").read_text().strip()
    assert {path.name: oct(path.stat().st_mode)[-3:] for path in folder.iterdir() if path.name.startswith(("gateway.token", "gateway.log", "host_"))} == {
        "gateway.token": "600", "gateway.log": "600", "host_ed25519": "600", "host_rsa": "600",
    }  # fmt: skip
    assert token not in (folder / "gateway.log").read_text()
    assert token not in live.log
    assert kim.ssh(f"grep -rs {token[:20]} /proc/self/environ").stdout == b""


def test_a_killed_gateway_leaves_sessions_running(live, kim):
    wait_for_state(kim.client, "main", "RUNNING")
    pid = json.loads((live.data / "ssh" / "gateway.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    assert kim.client.session("main")["state"] == "RUNNING"
