"""Files of a home listed, read and written by the program that runs where the home is; and hostile ones."""
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpufairy.client.move_ends import FolderHome
from gpufairy.client.move_home import move_home, seen_of
from gpufairy.engines import home_files
from gpufairy.engines.home_files import PIECE_BYTES, frame, part_name


@pytest.fixture
def ends(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


def moved(source: Path, target: Path):
    return move_home("kim", FolderHome(source), FolderHome(target))


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (content, 0 if path.is_symlink() else about.st_mode, about.st_mtime_ns if path.is_file() and not path.is_symlink() else 0)
    return found


def a_home(root: Path) -> None:
    (root / "code" / "deep").mkdir(parents=True)
    (root / "code" / "train.py").write_text("print('한글')\n")
    (root / "code" / "train.py").chmod(0o755)
    (root / "code" / "deep" / "big").write_bytes(os.urandom(2 * PIECE_BYTES + 77))
    (root / "empty").write_bytes(b"")
    (root / "odd \n name\udcff").write_text("x")
    (root / "link").symlink_to("/etc/passwd")
    (root / "read_only").mkdir()
    (root / "read_only" / "file").write_text("kept")
    (root / "read_only").chmod(0o700)


def test_a_home_comes_whole_and_a_second_time_sends_nothing(ends):
    a_home(ends[0])
    done = moved(*ends)
    assert (done.sent, done.left, done.newer) == (5, {}, [])
    assert tree(ends[0]) == tree(ends[1])
    again = moved(*ends)
    assert (again.sent, again.sent_bytes, again.left) == (0, 0, {})


def test_a_file_that_was_cut_off_goes_on_where_it_was(ends):
    content = os.urandom(3 * PIECE_BYTES)
    (ends[0] / "big").write_bytes(content)
    about = (ends[0] / "big").stat()
    part = ends[1] / part_name("big", about.st_size, about.st_mtime_ns)
    part.write_bytes(content[:PIECE_BYTES])
    done = moved(*ends)
    assert (done.sent_bytes, done.left) == (2 * PIECE_BYTES, {})
    assert (ends[1] / "big").read_bytes() == content
    assert list(ends[1].iterdir()) == [ends[1] / "big"]


def test_what_had_come_wrong_is_found_by_its_content(ends):
    content = os.urandom(3 * PIECE_BYTES)
    (ends[0] / "big").write_bytes(content)
    about = (ends[0] / "big").stat()
    (ends[1] / part_name("big", about.st_size, about.st_mtime_ns)).write_bytes(bytes(PIECE_BYTES))
    assert "did not come whole" in moved(*ends).left["big"]


def test_of_the_same_length_what_differs_is_sent_and_what_does_not_is_given_its_time(ends):
    for name, theirs in (("alike", "same"), ("other", "new!")):
        (ends[0] / name).write_text(theirs)
        (ends[1] / name).write_text("same")
        os.utime(ends[1] / name, (1, 1))
    assert moved(*ends).sent == 1
    assert tree(ends[0]) == tree(ends[1])


def test_what_was_worked_on_at_the_target_stays(ends):
    (ends[0] / "notes").write_text("old")
    os.utime(ends[0] / "notes", (1, 1))
    (ends[1] / "notes").write_text("new")
    done = moved(*ends)
    assert (done.newer, (ends[1] / "notes").read_text()) == (["notes"], "new")


def test_sockets_and_pipes_are_counted_and_left(ends):
    os.mkfifo(ends[0] / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(ends[0] / "socket"))
        done = moved(*ends)
    assert (done.others, done.sent, done.left) == (2, 0, {})


@pytest.mark.parametrize("path", ["../out", "/etc/x", "a/../../x", "", ".", "a//b", "link/x", ".fairy/results/x", "a\0b", ".fairy-move-0123456789abcdef"])
def test_nothing_is_written_outside_or_through_a_link(ends, tmp_path, path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (ends[1] / "link").symlink_to(outside)
    told = {"path": path, "kind": "file", "mode": 0o644, "mtime_ns": 1, "size": 1, "offset": 0, "length": 1, "last": True}
    (answer,) = FolderHome(ends[1]).write(frame(told, b"x"))
    assert "error" in answer
    assert list(outside.iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b", "outside"]


def test_nothing_is_read_through_a_link(ends, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (ends[0] / "link").symlink_to(tmp_path / "secret")
    (ends[0] / "way").symlink_to(tmp_path)
    for path in ("link", "way/secret", "../secret"):
        assert [told.get("error") is not None for told, _ in FolderHome(ends[0]).read([{"path": path}])] == [True, False]


def test_rights_beyond_the_usual_ones_do_not_travel(ends):
    (ends[0] / "setuid").write_text("x")
    (ends[0] / "setuid").chmod(0o4755)
    moved(*ends)
    assert (ends[1] / "setuid").stat().st_mode & 0o7777 == 0o755


def test_it_runs_as_a_program_of_its_own_without_our_packages(ends):
    a_home(ends[0])
    done = subprocess.run([sys.executable, "-I", "-S", home_files.__file__, "list", str(ends[0])], capture_output=True, check=True, timeout=30)
    found = seen_of(map(json.loads, done.stdout.splitlines()))
    assert found.errors == {}
    assert {"code/train.py", "link", "empty"} <= set(found.files)


def test_whoever_sends_half_a_piece_writes_nothing(ends):
    told = {"path": "half", "kind": "file", "mode": 0o644, "mtime_ns": 1, "size": 9, "offset": 0, "length": 9, "last": True}
    done = subprocess.run([sys.executable, "-I", home_files.__file__, "write", str(ends[1])], input=frame(told, b"123"), capture_output=True, check=True, timeout=30)
    assert done.stdout == b""
    assert list(ends[1].iterdir()) == []
