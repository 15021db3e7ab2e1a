"""The first command as a newcomer types it: a bare clone, an empty home, the lock with its hashes; `./fairy up`, a job, `./fairy down`.

Takes the package index. What it fetched is kept for the next time; everything else is made anew.
"""
import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from bench.ports import free_port

from first_use.clones import NOBODY, SUPPORTED, TOOLS, Clone, everybodys_python, open_folder, own_python, pythons, tools_only, whole_clone

pytestmark = [pytest.mark.slow, pytest.mark.system]

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
OF_SESSIONS = ("mkdir", "cat", "mv", "sleep")  # what a session as a process begins and ends with


def serve(clone: Clone, *options: object) -> str:
    port = ("--port", free_port(), "--ssh-port", 0)
    return clone.works("up", "-d", "--engine", "process", "--simulate", "2xA100-40GB", *port, *options)


def road(clone: Clone, *options: object, words: str = "hello") -> list[str]:
    """What a job says between `up` and `down`."""
    serve(clone, *options)
    try:
        return clone.works("run", "--gpus", "0.5", "--", "echo", words).splitlines()
    finally:
        clone.works("down", "--sessions")


def foreground_road(clone: Clone) -> None:
    server = clone.start("up", "--engine", "process", "--simulate", "2xA100-40GB", "--port", free_port(), "--ssh-port", 0)
    try:
        said = iter(server.stdout.readline, "")
        assert any("Ctrl-C stops the server" in line for line in said), server.stderr.read()
        assert clone.works("run", "--gpus", "0.5", "--", "echo", "hello").splitlines()[-1] == "hello"
        assert "is down; sessions run on" in clone.works("down")
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.communicate()


@pytest.mark.pythons
@pytest.mark.parametrize("version", [version for version in SUPPORTED if version != HERE])
def test_another_python_serves_from_a_bare_clone_too(version, tmp_path):
    python = pythons().get(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    clone = whole_clone(tmp_path / "clone", tmp_path / "home")
    clone.env["FAIRY_PYTHON"] = python
    foreground_road(clone)


@pytest.fixture(scope="module")
def made() -> Iterator[Clone]:
    """In a path with blanks and Korean letters, by a Python that every account may start."""
    with open_folder() as folder:
        clone = whole_clone(folder / "내 연구실 clone", folder / "home")
        clone.env["FAIRY_PYTHON"] = everybodys_python() or own_python()
        clone.works("--version")
        yield clone


@pytest.fixture
def clone(made, tmp_path) -> Clone:
    """The same with a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return replace(made, env={**made.env, "HOME": str(home)})


def test_a_server_in_the_foreground_a_job_and_down(clone):
    foreground_road(clone)


def test_a_path_with_blanks_and_korean_letters_is_fine(clone):
    assert road(clone) == ["hello"]


def test_in_the_locale_c_korean_letters_still_come_through(clone):
    clone.env["LC_ALL"] = "C"
    assert road(clone, words="안녕") == ["안녕"]


def test_umask_077_is_fine(clone):
    clone.umask = 0o077
    assert road(clone) == ["hello"]


def test_no_cmp_cc_apt_ps_and_little_else_is_needed(clone, tmp_path):
    clone.env["PATH"] = tools_only(tmp_path / "bin", *TOOLS, *OF_SESSIONS, "echo")
    assert road(clone) == ["hello"]


def test_who_is_not_root_can_serve_from_a_clone_of_roots(made):
    if os.geteuid() == 0 and everybodys_python() is None:
        pytest.skip("no Python on this machine that an ordinary user may start: apt-get install python3-venv")
    with open_folder() as home:
        user = NOBODY if os.geteuid() == 0 else None
        if user is not None:
            os.chown(home, user, user)
        assert road(replace(made, user=user, env={**made.env, "HOME": str(home)})) == ["hello"]


def test_a_home_that_cannot_be_written_is_told_with_what_to_do(clone):
    clone.env["HOME"] = "/proc/none"
    done = clone.call("up", "--engine", "process", "--port", free_port(), "--ssh-port", 0)
    assert done.returncode != 0
    assert done.stderr.splitlines() == [
        "fairy: cannot make the data folder /proc/none/.local/share/gpufairy: No such file or directory", "  → Choose another with --data.",
    ]  # fmt: skip


def test_with_a_home_that_cannot_be_written_other_folders_can_be_named(clone, tmp_path):
    clone.env.update(HOME="/proc/none", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert road(clone, "--data", tmp_path / "data") == ["hello"]
