"""Files of a folder of results: listed with their sizes and read one by one, and no name or link leads out of it."""
import os
from pathlib import Path

import pytest

from gpufairy.core.errors import NoSuchThing
from gpufairy.engines import result_folder
from gpufairy.engines.result_folder import listed, opened, result_file

SECRET = "not for a job's owner"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    folder = tmp_path / "results"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "out.txt").write_bytes(b"0123456789")
    (folder / "deep" / "er" / "model.bin").write_bytes(bytes(1000))
    return folder


async def whole(parent: Path, path: str) -> bytes:
    found = await result_file(parent, "results", path)
    read = b"".join([chunk async for chunk in found.chunks])
    assert len(read) == found.size_bytes
    return read


def test_files_are_listed_by_path_with_their_sizes(results: Path):
    found = listed(results.parent, "results", 10)
    assert [(one.path, one.size_bytes) for one in found.named] == [("deep/er/model.bin", 1000), ("out.txt", 10)]
    assert (found.count, found.size_bytes, found.whole) == (2, 1010, True)


def test_of_more_than_are_asked_for_the_first_are_named_and_all_are_counted(results: Path):
    found = listed(results.parent, "results", 1)
    assert ([one.path for one in found.named], found.count, found.size_bytes) == (["deep/er/model.bin"], 2, 1010)


def test_of_a_huge_folder_so_many_are_looked_at_and_that_is_said(results: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(result_folder, "MOST_LOOKED_AT", 1)
    found = listed(results.parent, "results", 10)
    assert (found.count, found.whole) == (1, False)


def test_a_folder_that_is_not_there_has_no_results(tmp_path: Path):
    assert listed(tmp_path, "results", 10).count == 0
    assert listed(tmp_path / "none", "results", 10).count == 0


def test_a_name_that_is_no_text_is_counted_and_not_named(results: Path):
    with open(os.fsencode(results) + b"/\xff\xfe", "wb") as file:
        file.write(b"abc")
    found = listed(results.parent, "results", 10)
    assert ([one.path for one in found.named], found.count, found.size_bytes) == (["deep/er/model.bin", "out.txt"], 3, 1013)


def test_links_pipes_and_sockets_are_not_among_them(results: Path):
    (results / "link").symlink_to("../secret")
    (results / "folder-link").symlink_to("..")
    os.mkfifo(results / "pipe")
    assert [one.path for one in listed(results.parent, "results", 10).named] == ["deep/er/model.bin", "out.txt"]


async def test_one_file_is_read_as_it_was_written(results: Path):
    assert await whole(results.parent, "out.txt") == b"0123456789"
    assert await whole(results.parent, "deep/er/model.bin") == bytes(1000)


async def test_odd_names_are_read_too(results: Path):
    for name in ("<b>&amp;.txt", "a b", "\x1b[31m", "%2e%2e", "결과.csv", "q?x=1#y"):
        (results / name).write_text(name)
        assert await whole(results.parent, name) == name.encode()


@pytest.mark.parametrize(
    "path", ["../secret", "deep/../../secret", "/etc/passwd", "", ".", "..", "deep", "deep/", "none", "link", "folder-link/secret", "pipe", "a\0b", "\udcff"]
)
async def test_nothing_but_a_file_of_the_results_is_read(results: Path, path: str):
    (results / "link").symlink_to("../secret")
    (results / "folder-link").symlink_to("..")
    os.mkfifo(results / "pipe")
    with pytest.raises(NoSuchThing):
        await result_file(results.parent, "results", path)


async def test_a_file_that_shrinks_while_it_is_read_is_still_as_long_as_was_said(results: Path):
    found = await result_file(results.parent, "results", "out.txt")
    os.truncate(results / "out.txt", 4)
    assert b"".join([chunk async for chunk in found.chunks]) == b"0123" + bytes(6)


async def test_one_that_nobody_reads_leaves_no_descriptor_open(results: Path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await result_file(results.parent, "results", "out.txt")
    with pytest.raises(NoSuchThing):
        opened(results.parent, "results", "deep")
    assert len(os.listdir("/proc/self/fd")) == before
