"""How `./fairy` makes its environment, keeps it, and leaves those alone that others use. The real scripts, Python and pip; one small package."""
import os
import shutil
import subprocess
from dataclasses import replace

import pytest

from first_use.clones import TOOLS, Clone, small_clone, tools_only

pytestmark = pytest.mark.slow

HELLO = "hello from tiny\n"


@pytest.fixture(scope="module")
def used(tmp_path_factory) -> Clone:
    """A clone after its first call, which was made with no cmp, no cc and no apt, no home to write to, and umask 077."""
    folder = tmp_path_factory.mktemp("first")
    clone = small_clone(folder / "내 연구실")
    clone.env.update(PATH=tools_only(folder / "bin", *TOOLS), HOME="/proc/none", LC_ALL="C")
    clone.umask = 0o077
    assert clone.works() == HELLO
    return clone


@pytest.fixture
def clone(used, tmp_path) -> Clone:
    """The same in a place of its own."""
    shutil.copytree(used.folder, tmp_path / "clone", symlinks=True)
    return replace(used, folder=tmp_path / "clone")


def test_the_second_call_takes_the_environment_that_the_first_has_made(used):
    done = used.call()
    assert (done.stdout, done.stderr) == (HELLO, "")


def test_with_umask_077_the_environment_can_still_be_read_by_others(used):
    module = next(used.folder.glob(".venv/lib/*/site-packages/tiny.py"))
    assert all(path.stat().st_mode & 0o004 for path in (module, module.parent, used.folder / used.environments()[0]))


def test_the_link_leads_to_the_environment(used):
    assert os.readlink(used.folder / ".venv") == used.environments()[0]


def test_a_clone_can_be_moved(clone):
    assert clone.call().stdout == HELLO


def test_two_first_calls_at_once_both_work_and_leave_one_environment(clone):
    shutil.rmtree(clone.folder / clone.environments()[0])
    both = [clone.start(), clone.start()]
    assert [program.communicate()[0] for program in both] == [HELLO, HELLO]
    assert len(clone.environments()) == 1


def test_a_new_lock_leaves_the_environment_alone_that_a_program_runs_from(clone):
    running = clone.start("wait", stdin=subprocess.PIPE)
    print("tiny", file=running.stdin, flush=True)
    assert running.stdout.readline() == HELLO
    clone.change_lock("a newer one")
    assert clone.works() == HELLO
    out, err = running.communicate("later\n")  # a module that it has not loaded yet
    assert out == "hello from one that was loaded later\n", err


def test_an_environment_that_nobody_runs_from_goes_when_the_next_is_made(clone):
    before = clone.environments()
    clone.change_lock("one that no other test has")  # nor, so, its environment's name
    clone.works()
    after = clone.environments()
    clone.change_lock("and another")
    clone.works()
    assert not {*before, *after} & {*clone.environments()}


def test_an_environment_of_an_earlier_version_which_was_no_link_gives_way_to_one(clone):
    (clone.folder / ".venv").unlink()
    (clone.folder / ".venv" / "bin").mkdir(parents=True)
    clone.change_lock("a newer one")
    clone.works()
    assert (clone.folder / ".venv").is_symlink()


def test_an_environment_whose_python_was_removed_is_made_anew(clone):
    python = clone.folder / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/usr/bin/python3.0")
    assert clone.works() == HELLO
