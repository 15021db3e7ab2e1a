"""Hand-ins are closed even to those who have them open, links lead nowhere, and a home is in its tar before its folder goes."""
import os
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.class_folders import ClassFolders

NOW = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
KIM = 23456
is_root = os.geteuid() == 0


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "homes").mkdir()
    return ClassFolders(tmp_path / "homes", tmp_path / "handin", own_uids=is_root)


def test_a_hand_in_folder_is_its_students_own_under_one_that_is_ours(folders):
    folders.make_hand_in("cs231n", "kim", KIM)
    assert folders.hand_in_folder("cs231n", "kim").stat().st_uid == (KIM if is_root else os.geteuid())
    assert folders.hand_ins.stat().st_mode & 0o777 == 0o700
    folders.make_hand_in("cs231n", "kim", KIM)


@pytest.mark.parametrize("name", ["../kim", "", ".aside", "a/b"])
def test_no_name_leads_elsewhere(folders, tmp_path, name):
    with pytest.raises(EngineRefused):
        folders.make_hand_in("cs231n", name, KIM)
    a_home(tmp_path)
    with pytest.raises(EngineRefused):
        folders.set_aside(name, "kim", NOW)


def test_a_closed_hand_in_can_be_read_by_all_who_reach_it_and_written_by_none(folders):
    folders.make_hand_in("cs231n", "kim", KIM)
    top = folders.hand_in_folder("cs231n", "kim")
    (top / "deep").mkdir(mode=0o700)
    (top / "deep" / "answer.txt").write_text("42")
    (top / "deep" / "answer.txt").chmod(0o4600)
    folders.close_hand_in("cs231n", "kim")
    for path in (top, top / "deep", top / "deep" / "answer.txt"):
        found = path.stat()
        assert (found.st_mode & 0o222, found.st_uid) == (0, os.geteuid())
        assert found.st_mode & 0o004
        assert found.st_mode & 0o7000 == 0
    folders.open_hand_in("cs231n", "kim", KIM)
    assert (top / "deep" / "answer.txt").stat().st_mode & 0o200
    folders.close_hand_in("cs231n", "nobody")


def test_links_and_pipes_in_a_hand_in_change_nothing_elsewhere(folders, tmp_path):
    folders.make_hand_in("cs231n", "kim", KIM)
    secret = tmp_path / "secret"
    secret.write_text("s")
    secret.chmod(0o600)
    top = folders.hand_in_folder("cs231n", "kim")
    (top / "link").symlink_to(secret)
    (top / "out").symlink_to(tmp_path)
    os.mkfifo(top / "pipe")
    folders.close_hand_in("cs231n", "kim")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert tmp_path.stat().st_mode & 0o200


@pytest.fixture
def open_folder():
    """One that other users reach, as pytest's own is not."""
    with tempfile.TemporaryDirectory() as found:
        Path(found).chmod(0o755)
        yield Path(found)


@pytest.mark.skipif(not is_root, reason="only root can become somebody else")
def test_whoever_has_it_open_as_the_student_cannot_write_after_it_is_closed(open_folder):
    folders = ClassFolders(open_folder / "homes", open_folder / "handin", own_uids=True)
    folders.make_hand_in("cs231n", "kim", KIM)
    folders.hand_ins.chmod(0o755)  # as a mount of the folder below would have it: the way to it is open
    top = folders.hand_in_folder("cs231n", "kim")
    assert wrote_as(KIM, top / "a") is True
    folders.close_hand_in("cs231n", "kim")
    assert wrote_as(KIM, top / "a") is False
    assert wrote_as(KIM, top / "b") is False


def wrote_as(uid, path):
    child = os.fork()
    if child == 0:
        try:
            os.setgid(uid)
            os.setuid(uid)
            with open(path, "a") as file:
                file.write("x")
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def a_home(tmp_path, user="kim"):
    home = tmp_path / "homes" / user
    home.mkdir(mode=0o700)
    (home / "sub").mkdir()
    (home / "sub" / "a.txt").write_text("a")
    (home / "link").symlink_to("/etc/passwd")
    (home / os.fsdecode(b"\xff\xfe.bin")).write_bytes(b"odd")
    return home


def test_a_home_is_set_aside_whole_and_an_empty_one_takes_its_place(folders, tmp_path):
    home = a_home(tmp_path)
    there = folders.set_aside("cs231n", "kim", NOW)
    assert (there / "sub" / "a.txt").read_text() == "a"
    assert list(home.iterdir()) == []
    assert there.parent.parent.stat().st_mode & 0o777 == 0o700
    assert folders.set_aside("cs231n", "kim", NOW) is None
    assert folders.set_aside("cs231n", "nobody", NOW) is None


def test_a_home_is_packed_before_its_folder_goes_with_links_as_links_and_odd_names(folders, tmp_path):
    a_home(tmp_path)
    there = folders.set_aside("cs231n", "kim", NOW)
    packed = folders.pack_next("cs231n")
    assert not there.exists()
    with tarfile.open(packed, errors="surrogateescape") as tar:
        names = {member.name: member for member in tar}
    assert names[f"{there.name}/link"].issym()
    assert f"{there.name}/{os.fsdecode(bytes([255, 254]))}.bin" in names
    assert folders.pack_next("cs231n") is None
    assert folders.aside_of("cs231n") == [packed]


def test_a_home_that_does_not_fit_twice_stays_a_folder(folders, tmp_path, monkeypatch):
    a_home(tmp_path)
    there = folders.set_aside("cs231n", "kim", NOW)
    monkeypatch.setattr(folders, "_has_room", lambda _folder: False)
    assert folders.pack_next("cs231n") is None
    assert there.is_dir()
