"""`./fairy` on a machine with the wrong Python, or half a clone: one line that says so, and what to do."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from first_use.clones import NOBODY, ROOT, TOOLS, Clone, open_folder, tools_only


@pytest.fixture
def bare_machine(tmp_path):
    """A clone without an environment, and a PATH with hardly anything on it."""
    clone, bin_folder = tmp_path / "clone", tmp_path / "bin"
    clone.mkdir()
    for name in ("fairy", ".setup", "requirements.lock"):
        shutil.copy(ROOT / name, clone / name)
    tools_only(bin_folder, *TOOLS, "mkdir")  # the last for stub Pythons
    return clone, bin_folder


def run_fairy(clone: Path, bin_folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(bin_folder), "HOME": str(clone), **more}
    return subprocess.run([str(clone / "fairy"), "--help"], env=env, capture_output=True, text=True, check=False)


def put_program(bin_folder: Path, name: str, script: str = "exit 1") -> None:
    bin_folder.mkdir(parents=True, exist_ok=True)
    (bin_folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (bin_folder / name).chmod(0o755)


def put_python(bin_folder: Path, name: str, version: str) -> None:
    """One that starts, has its parts, and is without ensurepip, as Debian's and Ubuntu's are."""
    script = f"""case "$*" in
        *version_info*) echo {version} ;;
        *without-pip*) for folder; do :; done; mkdir -p "$folder/bin"; ln -s "$0" "$folder/bin/python" ;;
        *ensurepip*) echo "$0: No module named ensurepip" >&2; exit 1 ;;
        *" pip "*) exit 1 ;;
    esac"""
    put_program(bin_folder, name, script)


def only_line(done) -> str:
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_no_python_is_told_in_one_line(bare_machine):
    assert only_line(run_fairy(*bare_machine)) == (
        "fairy: needs Python 3.11 to 3.14; found none. Install one, or name one in FAIRY_PYTHON."
    )


@pytest.mark.parametrize(("manager", "advice"), [
    ("apt-get", "apt install python3-venv (Ubuntu 22.04: python3.11-venv)"), ("dnf", "dnf install python3.11"), ("brew", "brew install python@3.13"),
])  # fmt: skip
def test_how_to_get_a_python_is_told_in_the_words_of_the_package_manager_that_is_there(bare_machine, manager, advice):
    put_program(bare_machine[1], manager)
    assert f"found none. {advice}, or name one in FAIRY_PYTHON." in only_line(run_fairy(*bare_machine))


def test_an_old_python_is_told_with_its_version(bare_machine):
    put_program(bare_machine[1], "python3", "echo 3.9")
    assert "found python3 (3.9)" in only_line(run_fairy(*bare_machine))


def test_a_python_that_does_not_start_is_told(bare_machine):
    put_program(bare_machine[1], "python3", "exit 127")
    assert "found python3 (does not start)" in only_line(run_fairy(*bare_machine))


def test_a_python_built_without_its_parts_is_told(bare_machine):
    put_program(bare_machine[1], "python3.12", 'case "$2" in *version*) echo 3.12;; *) exit 1;; esac')
    assert "python3.12 (3.12, built without ssl, sqlite3 or ctypes)" in only_line(run_fairy(*bare_machine))


def test_a_named_python_is_taken_or_refused_and_no_other_in_its_place(bare_machine):
    put_python(bare_machine[1], "python3.12", "3.12")
    put_program(bare_machine[1], "mine", "echo 3.9")
    assert "found mine (3.9)" in only_line(run_fairy(*bare_machine, FAIRY_PYTHON="mine"))


def test_a_named_python_that_is_not_there_is_told(bare_machine):
    assert "found no python9" in only_line(run_fairy(*bare_machine, FAIRY_PYTHON="python9"))


def test_a_shim_of_pyenv_that_does_not_start_is_passed_over_for_one_that_does(bare_machine):
    put_program(bare_machine[1], "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    put_python(bare_machine[1], "python3.11", "3.11")
    assert "with python3.11 3.11" in run_fairy(*bare_machine).stderr


def test_a_version_of_pyenv_that_is_not_switched_on_is_found_behind_its_shims(bare_machine, tmp_path):
    shims = tmp_path / "of pyenv" / "shims"
    for name in ("python3", "python3.12"):
        put_program(shims, name, "exit 127")
    own = tmp_path / "of pyenv" / "versions" / "3.12.1" / "bin"
    put_python(own, "python", "3.12")
    clone, bin_folder = bare_machine
    assert f"with {own}/python 3.12" in run_fairy(clone, Path(f"{shims}:{bin_folder}")).stderr


def test_a_version_of_pyenv_is_found_at_home_when_its_shims_are_not_on_the_path(bare_machine):
    clone, bin_folder = bare_machine  # the clone is the home
    own = clone / ".pyenv" / "versions" / "3.13.0" / "bin"
    put_python(own, "python", "3.13")
    assert f"with {own}/python 3.13" in run_fairy(clone, bin_folder).stderr


def test_where_apt_is_the_package_that_makes_environments_is_named_by_the_version_of_the_python(bare_machine):
    put_python(bare_machine[1], "python3.11", "3.11")
    put_program(bare_machine[1], "apt-get")
    told = run_fairy(*bare_machine).stderr.splitlines()[-1]
    assert told.startswith("fairy: python3.11 3.11 cannot make environments. apt install python3.11-venv, or name another in FAIRY_PYTHON.")


def test_where_there_is_no_apt_what_is_missing_is_named(bare_machine):
    put_python(bare_machine[1], "python3.12", "3.12")
    told = run_fairy(*bare_machine).stderr.splitlines()[-1]
    assert told.startswith("fairy: python3.12 3.12 cannot make environments. Install its module ensurepip, or name another in FAIRY_PYTHON.")


def test_a_clone_without_its_lock_file_is_told(bare_machine):
    (bare_machine[0] / "requirements.lock").unlink()
    found = f"cannot read {bare_machine[0]}/requirements.lock: the clone is not whole. git checkout brings it back."
    assert only_line(run_fairy(*bare_machine)) == f"fairy: {found}"


def test_a_clone_that_may_not_be_written_is_told():
    with open_folder() as folder:
        clone = Clone(folder, {"PATH": tools_only(folder / "bin", *TOOLS)}, NOBODY if os.geteuid() == 0 else None)
        for name in ("fairy", ".setup", "requirements.lock"):
            shutil.copy(ROOT / name, folder / name)
        put_python(folder / "bin", "python3.12", "3.12")
        folder.chmod(0o555)
        sentence = clone.only_sentence()
        folder.chmod(0o755)
    assert sentence == f"fairy: cannot write in {folder}, where the environment would go. Call it as its owner, or make a clone of your own."
