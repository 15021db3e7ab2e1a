"""`./fairy` on a machine with the wrong Python: one line that says so, and what to do."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("sh", "dirname", "readlink", "cmp", "rm", "cp", "mv", "grep", "tail", "mkdir")


@pytest.fixture
def bare_machine(tmp_path):
    """A clone without an environment, and a PATH with hardly anything on it."""
    clone, bin_folder = tmp_path / "clone", tmp_path / "bin"
    clone.mkdir()
    bin_folder.mkdir()
    for name in ("fairy", ".setup", "requirements.lock"):
        shutil.copy(ROOT / name, clone / name)
    for tool in TOOLS:
        (bin_folder / tool).symlink_to(shutil.which(tool))
    return clone, bin_folder


def run_fairy(clone: Path, bin_folder: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(bin_folder), "HOME": os.environ.get("HOME", "/")}
    return subprocess.run([str(clone / "fairy"), "--help"], env=env, capture_output=True, text=True, check=False)


def put_python(bin_folder: Path, name: str, script: str) -> None:
    (bin_folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (bin_folder / name).chmod(0o755)


def only_line(done) -> str:
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_no_python_is_told_in_one_line(bare_machine):
    assert only_line(run_fairy(*bare_machine)) == (
        "fairy: needs Python 3.11, 3.12 or 3.13; found none. Install one, or name it in FAIRY_PYTHON."
    )


def test_an_old_python_is_told_with_its_version(bare_machine):
    put_python(bare_machine[1], "python3", "echo 3.9")
    assert "found python3 (3.9)" in only_line(run_fairy(*bare_machine))


def test_a_python_that_does_not_start_is_told(bare_machine):
    put_python(bare_machine[1], "python3", "exit 127")
    assert "found python3 (does not start)" in only_line(run_fairy(*bare_machine))


def test_a_python_built_without_its_parts_is_told(bare_machine):
    put_python(bare_machine[1], "python3.12", 'case "$2" in *version*) echo 3.12;; *) exit 1;; esac')
    assert "python3.12 (3.12, built without ssl, sqlite3 or ctypes)" in only_line(run_fairy(*bare_machine))


def test_a_python_that_cannot_make_environments_is_told_what_to_install(bare_machine):
    put_python(bare_machine[1], "python3.11", 'case "$1$2" in -c*version*) echo 3.11;; -c*) exit 0;; *) exit 1;; esac')
    done = run_fairy(*bare_machine)
    assert done.returncode != 0
    assert "apt install python3-venv" in done.stderr
