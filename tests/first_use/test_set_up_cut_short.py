"""Set-up that cannot end, or is ended: one sentence, nothing left over, and the next call works."""
import os
import signal
import subprocess
from pathlib import Path

import pytest

from endpoints import closed_port
from first_use.clones import Clone, small_clone
from waits import until

pytestmark = pytest.mark.slow

HELLO = "hello from tiny\n"


@pytest.fixture
def clone(tmp_path) -> Clone:
    return small_clone(tmp_path)


def begin(clone: Clone) -> subprocess.Popen[str]:
    """A call that is making an environment."""
    program = clone.start(process_group=0)
    until(clone.environments, "an environment that is being made")
    return program


def test_ctrl_c_is_told_and_leaves_nothing(clone):
    program = begin(clone)
    os.killpg(program.pid, signal.SIGINT)
    _, err = program.communicate()
    until(lambda: not clone.environments(), "what was begun to be removed")
    assert err.splitlines()[1:] == ["fairy: interrupted: nothing is left of the environment. The next call makes it."]


def test_after_ctrl_c_the_next_call_works(clone):
    program = begin(clone)
    os.killpg(program.pid, signal.SIGINT)
    program.communicate()
    assert clone.works() == HELLO


def test_what_was_left_by_a_call_that_was_killed_is_removed_by_the_next(clone):
    program = begin(clone)
    os.killpg(program.pid, signal.SIGKILL)
    program.communicate()
    assert clone.works() == HELLO
    assert len(clone.environments()) == 1


@pytest.mark.parametrize(("lock", "told"), [
    (f"tiny==1.0 --hash=sha256:{'0' * 64}\n", "a package has another hash than"),
    ("", "No package metadata was found for tiny"),
    ("\udc80\udcff", "can't decode byte"),
], ids=["another hash", "empty", "no text"])  # fmt: skip
def test_a_broken_lock_file_is_told_in_a_sentence(clone, lock, told):
    (clone.folder / "requirements.lock").write_text(lock, errors="surrogateescape")
    assert told in clone.only_sentence()


def test_what_a_merge_left_in_the_lock_file_is_told_and_the_next_call_without_it_works(clone):
    path = clone.folder / "requirements.lock"
    whole = path.read_text()
    path.write_text(f"<<<<<<< HEAD\n{whole}")
    assert "Invalid requirement: '<<<<<<< HEAD'" in clone.only_sentence()
    path.write_text(whole)
    assert clone.works() == HELLO


def test_an_index_that_is_not_reached_is_told(clone):
    del clone.env["PIP_NO_INDEX"]
    clone.env.update(PIP_INDEX_URL=f"http://127.0.0.1:{closed_port()}/simple", PIP_FIND_LINKS="", PIP_RETRIES="1")
    assert "the package index was not reached. Check the network" in clone.only_sentence()


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("not root: no small disk can be mounted")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@pytest.mark.system  # takes root, to mount a small disk
def test_a_full_disk_is_told_and_with_room_the_next_call_works(small_disk):
    clone = small_clone(small_disk)
    found = [clone.only_sentence()]  # full while the environment is made
    resize(small_disk, "16m")
    found.append(clone.only_sentence())  # full while pip is put there
    resize(small_disk, "200m")
    assert all(f"no space is left where {clone.folder} or /tmp is" in sentence for sentence in found), found
    assert clone.works() == HELLO
