"""A student's life in containers, on a real dockerd: by ssh, scp, sftp and rsync as people have them, through the server as it is shipped."""
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from bench.server import LiveServer
from test_ssh import LIMIT_S, Person, ssh_port

from daemons import RealDaemon
from docker_settings import docker_settings
from gpufairy.client.errors import Problem
from images import Layer, busybox_layer, image_tar
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

OTHER = "fairy-test/other:1"
BROKEN = "fairy-test/broken:1"
SETTINGS = """
[folders.data]
path = "{folder}/datasets"
[presets.small]
gpus = 0
cpus = 1
memory = "256MiB"
"""


def other_image() -> bytes:
    layer = busybox_layer()
    layer.file("etc/other", b"another image\n")
    return image_tar(OTHER, layer)


def broken_image() -> bytes:
    """Its /etc/passwd leads to itself: nothing can be mounted over it."""
    layer = Layer()
    layer.folder("etc")
    layer.link("etc/passwd", "passwd")
    return image_tar(BROKEN, layer)


@pytest.fixture(scope="module")
def live(docker_daemon: RealDaemon):
    folder = Path(tempfile.mkdtemp(prefix="fairy-c-"))
    (folder / "datasets" / "mnist").mkdir(parents=True)
    (folder / "datasets" / "mnist" / "train").write_text("digits\n")
    for archive in (other_image(), broken_image()):
        docker_daemon.load(archive)
    settings = docker_settings(docker_daemon.socket, SETTINGS.format(folder=folder))
    with LiveServer(folder, settings, ("--simulate", "2xA100-40GB"), engine="docker", ssh=True) as started:
        pip = started.data / "shared" / "pip"
        shutil.copytree(Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "pip", pip)
        write_wheel(started.data / "shared")
        yield started
    shutil.rmtree(folder, ignore_errors=True)


def write_wheel(folder: Path) -> None:
    """A package of one module and one script, as small as they come."""
    source = folder / "hello"
    source.mkdir()
    (source / "hello_fairy.py").write_text("def main():\n    print('hello from home')\n")
    info = source / "hello_fairy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hello-fairy\nVersion: 1.0\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nhello-fairy = hello_fairy:main\n")
    (info / "RECORD").write_text("")
    shutil.make_archive(str(folder / "hello"), "zip", source)
    (folder / "hello.zip").rename(folder / "hello_fairy-1.0-py3-none-any.whl")


@pytest.fixture(scope="module")
def kim(live):
    return Person(live, "kim")


@pytest.fixture(scope="module")
def lee(live):
    return Person(live, "lee")


@pytest.fixture(scope="module")
def session(kim):
    """The one that most of these look at."""
    kim.client.submit({"name": "work", "kind": "interactive", "gpus": "0.5", "mounts": ["data/mnist"], "memory": "1GiB", "cpus": 1})
    return wait_for_state(kim.client, "work", "RUNNING")["name"]


def said(done) -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_plain_ssh_lands_in_a_container_of_ones_own(kim, session, docker_daemon):
    out = said(kim.ssh("id -u; whoami; hostname; pwd; echo $FAIRY_SESSION $FAIRY_GPUS; cat /mnt/data/mnist/train; ls /home", session=session)).splitlines()
    assert out == ["20001", "kim", "work", "/home/kim", "work 0:0.5", "digits", "kim"]
    [container] = docker_daemon.containers(**{"gpufairy.owner": "kim", "gpufairy.name": "work"})
    assert container["Names"] == ["/fairy-kim-work"]


def test_a_command_has_its_exit_code_and_its_streams_apart(kim, session):
    done = kim.ssh("cat; echo oops >&2; exit 41", session=session, input=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (41, b"in\n", b"oops\n")


def test_a_terminal_is_one_of_the_container(kim, session):
    line = kim.line("tty; stty size; echo $TERM", session=session, options=("-tt",))
    done = subprocess.run(["script", "-qec", " ".join(f"'{word}'" for word in line), "/dev/null"], capture_output=True, timeout=LIMIT_S, check=False)
    assert b"/dev/pts/" in done.stdout


def test_files_go_both_ways_by_scp_sftp_and_rsync(kim, session, tmp_path):
    sent = tmp_path / "sent"
    sent.write_bytes(bytes(range(256)) * 5000)
    where, port = f"kim+{session}@127.0.0.1", str(ssh_port(kim.live))
    common = [*kim.line()[1:-1][:-2]]  # options alone, without the port's own letter, which differs
    for number, program in enumerate((["scp", *common, "-P", port], ["scp", "-O", *common, "-P", port])):
        subprocess.run([*program, sent, f"{where}:copy{number}"], check=True, capture_output=True, timeout=LIMIT_S)
        subprocess.run([*program, f"{where}:copy{number}", tmp_path / f"back{number}"], check=True, capture_output=True, timeout=LIMIT_S)
        assert (tmp_path / f"back{number}").read_bytes() == sent.read_bytes()
    batch = f"put {sent} by_sftp\nget by_sftp {tmp_path}/back_sftp\nls\n"
    subprocess.run(["sftp", *common, "-P", port, "-b", "-", where], input=batch.encode(), check=True, capture_output=True, timeout=LIMIT_S)
    assert (tmp_path / "back_sftp").read_bytes() == sent.read_bytes()
    rsync = ["rsync", "-a", "-e", " ".join(["ssh", *common, "-p", port])]
    subprocess.run([*rsync, sent, f"{where}:by_rsync"], check=True, capture_output=True, timeout=LIMIT_S)
    assert said(kim.ssh("cmp by_rsync by_sftp && echo same", session=session)) == "same\n"


def test_over_sftp_nobody_sees_another_users_files(kim, lee, session):
    kim.ssh("echo private > secret; chmod 644 secret", session=session)
    out = subprocess.run([*sftp(lee), "lee@127.0.0.1"], input=b"ls -la /home\nls /home/kim\nls /\n", capture_output=True, timeout=LIMIT_S, check=False)
    assert b"kim" not in out.stdout.partition(b"/home/kim")[0]
    assert b"secret" not in out.stdout
    assert b"not found" in out.stderr.lower() or b"no such file" in out.stderr.lower()


def sftp(person: Person) -> list[str]:
    return ["sftp", *person.line()[1:-1][:-2], "-P", str(ssh_port(person.live)), "-b", "-"]


def test_without_a_session_files_are_reached_and_nothing_is_started(lee):
    done = subprocess.run([*sftp(lee), "lee@127.0.0.1"], input=b"mkdir papers\nls\n", capture_output=True, timeout=LIMIT_S, check=True)
    assert b"papers" in done.stdout
    assert list(lee.client.sessions()) == []


def test_a_forward_leads_into_the_own_session_alone(kim, session):
    server = subprocess.Popen(kim.line("cd /mnt/data && exec python3 -m http.server 7777 --bind 127.0.0.1", session=session), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: b"mnist" in through(kim, session, "localhost:7777"), "the forward")
        foreign = ("127.0.0.2:7777", "169.254.169.254:80", "10.0.0.1:80", "lee:7777", f"[::ffff:127.0.0.1]:{ssh_port(kim.live)}")
        assert [through(kim, session, there) for there in foreign] == [b""] * len(foreign)
    finally:
        server.kill()
        server.wait()


def through(person: Person, session: str, there: str) -> bytes:
    line = person.line(session=session, options=("-W", there))
    return subprocess.run(line, input=b"GET / HTTP/1.0\r\n\r\n", capture_output=True, timeout=LIMIT_S, check=False).stdout


def test_what_pip_installed_for_the_user_is_there_in_another_image(kim, session):
    install = "python3 /shared/pip install --user --no-index --no-warn-script-location /shared/hello_fairy-1.0-py3-none-any.whl"
    said(kim.ssh(install, session=session))
    assert said(kim.ssh("hello-fairy", session=session)) == "hello from home\n"
    kim.client.submit({"name": "elsewhere", "kind": "interactive", "gpus": "0", "image": OTHER})
    assert said(kim.ssh("cat /etc/other; hello-fairy", session="elsewhere")) == "another image\nhello from home\n"
    kim.client.stop("elsewhere")


def test_a_job_is_queued_from_inside_and_its_result_comes_back(kim, session):
    out = said(kim.ssh("cd /tmp && fairy run --gpus 0 --name inner -- sh -c 'echo 42 > /results/answer; echo done'; cat results/inner/answer", session=session))
    assert out.splitlines()[-2:] == ["done", "42"]
    wait_for_state(kim.client, "inner", "ENDED")
    assert b"".join(kim.client.logs("inner")) == b"done\n"
    assert b"answer" in b"".join(kim.client.results("inner"))


def test_killing_everything_one_has_does_not_end_the_session(kim, session):
    pid = kim.client.session("work")["started_at"]
    kim.ssh("kill -9 -1", session=session)
    assert said(kim.ssh("echo alive", session=session)) == "alive\n"
    assert kim.client.session("work")["started_at"] == pid


def test_processes_outlive_a_disconnect_when_they_are_told_to(kim, session):
    said(kim.ssh("tmux new-session -d -s train 'sleep 1000'; nohup sleep 1001 >/dev/null 2>&1 &", session=session))
    assert said(kim.ssh("tmux ls; ps | grep -c '[s]leep 100'", session=session)).splitlines()[-1] == "2"


def test_a_swap_keeps_name_home_and_seat(kim, session):
    before = kim.client.session("work")
    kim.ssh("echo mine > note", session=session)
    kim.client.swap("work", OTHER)
    until(lambda: kim.client.session("work")["state"] == "RUNNING" and kim.client.session("work")["attempt"] == 2, "the other image")
    assert said(kim.ssh("cat /etc/other note; hostname", session=session)) == "another image\nmine\nwork\n"
    assert kim.client.session("work")["seat"] == before["seat"]


def test_a_swap_to_an_image_that_does_not_start_is_undone_with_all_that_was_there(kim, session):
    kim.ssh("echo outside > /tmp/outside-home", session=session)
    attempt = kim.client.session("work")["attempt"]
    kim.client.swap("work", BROKEN)
    until(lambda: kim.client.session("work")["state"] == "RUNNING" and kim.client.session("work")["attempt"] > attempt, "the old image again", limit_s=60)
    assert said(kim.ssh("cat /tmp/outside-home", session=session)) == "outside\n"
    assert any("did not start" in event["why"] for event in kim.client.session_events("work"))


def test_a_session_becomes_an_image_that_waits_for_an_admin(live, kim, lee, session):
    kim.ssh("echo tool > /tmp/tool; echo secret > ~/secret", session=session)
    made = kim.client.commit("work", "kim/tools:1")
    assert (made["owner"], made["state"], made["session"]) == ("kim", "waiting", "work")
    with_tools = {"name": "with-tools", "kind": "interactive", "gpus": "0", "image": "kim/tools:1"}
    with pytest.raises(Problem, match="waits for an admin"):
        lee.client.submit(with_tools)
    assert live.fairy("image", "approve", "kim/tools:1").returncode == 0
    lee.client.submit(with_tools)
    out = said(lee.ssh("cat /tmp/tool; ls -aR /home; env", session="with-tools"))
    assert out.startswith("tool\n")
    assert "secret" not in out
    assert "FAIRY_SESSION=with-tools" in out
    lee.client.stop("with-tools")


def test_an_image_that_is_not_here_is_told_in_words(kim):
    with pytest.raises(Problem, match=r"not on this machine \(did you mean fairy-test/other:1"):
        kim.client.submit({"kind": "interactive", "gpus": "0", "image": "fairy-test/othr:1"})


def test_what_can_never_be_mounted_is_told_at_submit(kim):
    for mount, words in (("dat", "no folder 'dat'"), ("data/none", "cannot be mounted"), ("data/../..", "no path")):
        with pytest.raises(Problem, match=words):
            kim.client.submit({"kind": "interactive", "gpus": "0", "mounts": [mount]})


def test_a_login_shell_keeps_what_the_image_and_we_have_put_on_the_path(kim, session):
    login = "mkdir -p ~/.local/bin; sh -lc 'echo $PATH'"
    assert said(kim.ssh(login, session=session)).strip().endswith(":/opt/fairy/bin")


def test_out_of_memory_is_told_in_words(kim):
    kim.client.submit({"name": "hungry", "command": ["sh", "-c", "tail /dev/zero"], "gpus": "0", "memory": "64MiB"})
    ended = wait_for_state(kim.client, "hungry", "ENDED", limit_s=60)
    assert "memory" in ended["why"]
    assert ended["outcome"] == "failed"


def test_presets_and_limits_hold(kim):
    kim.client.submit({"name": "tiny", "kind": "interactive", "preset": "small"})
    wait_for_state(kim.client, "tiny", "RUNNING")
    out = said(kim.ssh("cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; grep CapEff /proc/self/status; ulimit -n", session="tiny"))
    assert str(256 * 2**20) in out
    assert "CapEff:\t0000000000000000" in out
    kim.client.stop("tiny")


def test_a_restart_of_the_server_cuts_no_shell_and_loses_no_container(live, kim, session, docker_daemon):
    shell = subprocess.Popen(kim.line("cat", session=session), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    shell.stdin.write(b"before\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == b"before\n"
    [before] = docker_daemon.containers(**{"gpufairy.owner": "kim", "gpufairy.name": "work"})
    live.kill()
    shell.stdin.write(b"while it is away\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == b"while it is away\n"
    live.start()
    shell.stdin.write(b"after\n")
    shell.stdin.close()
    assert shell.stdout.read() == b"after\n"
    assert shell.wait(LIMIT_S) == 0
    shell.stdout.close()
    [after] = docker_daemon.containers(**{"gpufairy.owner": "kim", "gpufairy.name": "work"})
    assert (after["Id"], after["State"]) == (before["Id"], "running")


def test_a_home_moves_into_a_folder_and_back_and_stays_its_owner_s(live, kim, session, tmp_path):
    kim.ssh("mkdir moved; echo one > moved/out; ln -s /etc/passwd moved/link", session=session)
    folder = tmp_path / "moving"
    out = live.fairy("move", live.url, str(folder), "--user", "kim", "--without", "history")
    assert out.returncode == 0, out.stderr
    there = folder / "homes" / "kim" / "moved"
    assert ((there / "out").read_text(), str((there / "link").readlink())) == ("one\n", "/etc/passwd")
    (there / "in").write_text("two\n")
    back = live.fairy("move", str(folder), live.url, "--user", "kim", "--without", "history")
    assert (back.returncode, "1 file sent" in back.stdout) == (0, True), back.stderr
    assert kim.ssh("cat moved/in; stat -c %U moved/in", session=session).stdout == b"two\nkim\n"


def test_with_an_empty_database_everything_is_adopted_and_uids_stay(live, kim, session, docker_daemon):
    said(kim.ssh("echo mine > note", session=session))
    before = {one["Id"] for one in docker_daemon.containers(**{"gpufairy.role": "session"}) if one["State"] == "running"}
    live.stop()
    for path in live.data.glob("fairy.db*"):
        path.unlink()
    live.start()
    with live.client() as admin:
        found = {one["name"]: one for one in admin.sessions(all_users=True)}
        assert found["work"]["state"] == "RUNNING"
        admin.add_key({"key": kim.key.with_suffix(".pub").read_text(), "user": "kim"})
    assert said(kim.ssh("id -u; cat note", session=session)) == "20001\nmine\n"
    assert before == {one["Id"] for one in docker_daemon.containers(**{"gpufairy.role": "session"}) if one["State"] == "running"}
    with sqlite3.connect(live.data / "fairy.db") as database:
        assert database.execute("select uid from users where name = 'kim'").fetchone() == (20001,)


def test_a_user_who_is_shut_out_is_out_at_once(live):
    mal = Person(live, "mal")
    with live.client() as admin, subprocess.Popen(mal.line("echo in; sleep 1000"), stdout=subprocess.PIPE) as held:
        assert held.stdout.readline() == b"in\n"
        began = time.monotonic()
        admin.change_user("mal", {"disabled": True})
        assert held.wait(LIMIT_S) != 0
        assert time.monotonic() - began < 5
    assert mal.ssh("true").returncode == 255
