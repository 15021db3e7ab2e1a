"""Files by the sftp, scp and rsync that people have, and by what editors do."""
import os
import subprocess

import pytest
from ssh_scene import LIMIT_S, need

pytestmark = pytest.mark.system


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=LIMIT_S, check=False, **more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def files(scene):
    """A megabyte with a name that shells trip over, beside the session; `there` is inside it."""
    here = scene.folder / "here it's"
    here.mkdir(exist_ok=True)
    (here / "a b$c.bin").write_bytes(os.urandom(2**20))
    return here


def test_sftp_puts_gets_and_renames(scene, files):
    batch = f'put "{files}/a b$c.bin" one.bin\nrename one.bin two.bin\nget two.bin "{files}/back.bin"\nmkdir made\nrmdir made\n'
    run("sftp", *scene.options(), "-P", scene.port, "-b", "-", "kim@127.0.0.1", input=batch.encode())
    assert (files / "back.bin").read_bytes() == (scene.home / "two.bin").read_bytes() == (files / "a b$c.bin").read_bytes()
    assert scene.house.asked == [{"user": "kim", "name": None, "purpose": "files"}]


@pytest.mark.parametrize("way", [(), ("-O",)], ids=["by sftp", "as of old"])
def test_scp_copies_folders_both_ways(scene, files, way):
    copy = ("scp", *way, *scene.options(), "-P", scene.port, "-r", "-q", "-p")
    run("rm", "-rf", scene.home / "there", files / "back")
    run(*copy, files, "kim+train@127.0.0.1:there")
    run(*copy, "kim+train@127.0.0.1:there", files / "back")
    assert (files / "back" / "a b$c.bin").read_bytes() == (files / "a b$c.bin").read_bytes()
    assert {(body["name"], body["purpose"]) for body in scene.house.asked} == {("train", "files")}


def test_rsync_sends_what_has_changed(scene, files):
    need("rsync")
    shell = " ".join(["ssh", *scene.options(), "-p", str(scene.port)])
    run("rsync", "-a", "-e", shell, f"{files}/a b$c.bin", "kim@127.0.0.1:synced/")
    (files / "new").write_text("new")
    shown = run("rsync", "-ai", "-e", shell, f"{files}/a b$c.bin", f"{files}/new", "kim@127.0.0.1:synced/").decode()
    assert [line.split(maxsplit=1)[1] for line in shown.splitlines()] == ["new"]
    assert (scene.home / "synced" / "a b$c.bin").read_bytes() == (files / "a b$c.bin").read_bytes()
    assert {body["purpose"] for body in scene.house.asked} == {"files"}


def test_sftp_sees_the_session_and_starts_where_it_does(scene):
    shown = run("sftp", *scene.options(), "-P", scene.port, "-b", "-", "kim@127.0.0.1", input=b"pwd\n").decode()
    assert f"Remote working directory: {scene.home}" in shown


async def test_an_unknown_subsystem_is_refused(scene):
    async with await scene.connect() as connection:
        with pytest.raises(Exception, match="Session request failed"):
            await connection.create_process(subsystem="netconf")
