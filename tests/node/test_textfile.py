"""gpu_sessions.prom, in folders that others write to as well."""
import os
import stat
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpufairy.core.errors import BadInput, Conflict
from gpufairy.node import textfile
from gpufairy.node.textfile import Textfile
from prometheus import NOON

NAME = "gpu_sessions.prom"


def write(folder: Path, text: bytes = b"fairy_up 1\n") -> None:
    Textfile(folder).write(text, NOON)


def test_it_is_written_whole_for_everybody_with_the_time_of_its_collection(tmp_path):
    before = os.umask(0o077)
    try:
        write(tmp_path)
    finally:
        os.umask(before)
    found = (tmp_path / NAME).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o644, NOON.timestamp())
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_readers_never_see_half_of_it(tmp_path):
    pages = [b"a" * 2**20, b"b" * 2**20]
    write(tmp_path, pages[0])
    done = threading.Event()

    def rewrite() -> None:
        for number in range(100):
            write(tmp_path, pages[number % 2])
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not done.is_set():
        assert (tmp_path / NAME).read_bytes() in pages
        assert [path.name for path in tmp_path.glob("*.prom")] == [NAME]
    writer.join()


def test_a_link_is_replaced_not_followed(tmp_path):
    precious = tmp_path / "passwd"
    precious.write_text("root")
    folder = tmp_path / "textfiles"
    folder.mkdir()
    (folder / NAME).symlink_to(precious)
    write(folder)
    assert precious.read_text() == "root"
    assert not (folder / NAME).is_symlink()


def test_a_fifo_is_replaced_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / NAME)
    write(tmp_path)
    assert (tmp_path / NAME).is_file()


def test_a_folder_in_its_place_is_told_of_and_left(tmp_path):
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "kept").touch()
    with pytest.raises(Conflict, match=r"cannot write .*gpu_sessions.prom") as refused:
        write(tmp_path)
    assert refused.value.next_step == "gpu_sessions.prom is a folder there: remove it."
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (tmp_path / NAME / "kept").exists()


@pytest.mark.parametrize("make", [Path.touch, lambda path: None], ids=["a file", "nothing"])
def test_no_folder_is_told_of(tmp_path, make):
    make(tmp_path / "place")
    with pytest.raises(BadInput, match=r"textfile folder .*place"):
        write(tmp_path / "place")


def test_our_half_written_files_go_and_no_other(tmp_path):
    ours, young = tmp_path / f".gpu_sessions.{'a' * 16}.part", tmp_path / f".gpu_sessions.{'b' * 16}.part"
    theirs = [tmp_path / name for name in ("other.prom", ".gpu_sessions.mine.part", f".gpu_sessions.{'c' * 16}.part.bak", "gpu_sessions.prom.1234")]
    link, fifo = tmp_path / f".gpu_sessions.{'d' * 16}.part", tmp_path / f".gpu_sessions.{'e' * 16}.part"
    for path in (ours, *theirs):
        path.touch()
    link.symlink_to(theirs[0])
    os.mkfifo(fifo)
    folder = os.open(tmp_path, os.O_RDONLY)
    textfile.remove_left_over(folder, datetime.now(UTC).timestamp() + 120)
    young.touch()
    textfile.remove_left_over(folder, datetime.now(UTC).timestamp())
    os.close(folder)
    assert set(tmp_path.iterdir()) == {young, link, fifo, *theirs}


def test_killed_while_writing_leaves_the_old_file_whole(tmp_path):
    write(tmp_path, b"old 1\n")
    folder = os.open(tmp_path, os.O_RDONLY)
    textfile.write_part(folder, f".gpu_sessions.{'a' * 16}.part", b"new", 0)  # and no rename
    os.close(folder)
    assert (tmp_path / NAME).read_bytes() == b"old 1\n"


def test_what_is_stale_goes_when_the_new_cannot_be_written(tmp_path, monkeypatch):
    write(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(textfile, "write_part", full)
    with pytest.raises(Conflict, match="No space left on device"):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.system
def test_a_full_disk_is_told_of_and_leaves_nothing_stale(small_disk):
    write(small_disk)
    with pytest.raises(Conflict, match="No space left on device"):
        write(small_disk, b"x" * 2**20)
    assert list(small_disk.iterdir()) == []


@pytest.mark.system
def test_a_read_only_disk_is_told_of(small_disk):
    write(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Conflict, match="Read-only file system"):
        write(small_disk)


def test_at_a_clean_end_it_goes(tmp_path):
    write(tmp_path)
    Textfile(tmp_path).remove()
    assert list(tmp_path.iterdir()) == []
    Textfile(tmp_path / "gone").remove()
