"""Results are read by the server out of a folder that a user filled: nothing in it may lead the server elsewhere."""
import io
import os
import socket
import tarfile
from pathlib import Path

from gpufairy.engines.archive import DEEPEST, tar_chunks, tar_stream


def packed(parent: Path, name: str = "results") -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(tar_chunks(parent, name))))


def a_folder(parent: Path) -> Path:
    (parent / "results").mkdir()
    return parent / "results"


def test_files_and_folders_come_as_they_are(tmp_path: Path):
    folder = a_folder(tmp_path)
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "sub" / "big.bin").write_bytes(os.urandom(700_001))
    (folder / "한글.txt").write_text("안녕")
    with packed(tmp_path) as archive:
        assert sorted(archive.getnames()) == ["sub", "sub/big.bin", "sub/empty", "한글.txt"]
        assert archive.extractfile("sub/big.bin").read() == (folder / "sub" / "big.bin").read_bytes()


def test_links_pipes_and_sockets_are_left_out(tmp_path: Path):
    folder = a_folder(tmp_path)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path / "secrets")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
    (folder / "file").write_text("fine")
    with packed(tmp_path) as archive:
        assert archive.getnames() == ["file"]


def test_a_results_folder_that_became_a_link_is_empty(tmp_path: Path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("secret")
    (tmp_path / "results").symlink_to(tmp_path / "secrets")
    assert b"".join(tar_chunks(tmp_path, "results")) == b""


def test_a_file_that_shrinks_is_filled_up_so_that_the_next_one_is_not_misread(tmp_path: Path):
    folder = a_folder(tmp_path)
    size = 2_000_000
    (folder / "shrinks").write_bytes(b"x" * size)
    chunks = tar_chunks(tmp_path, "results")
    first = next(chunks)
    os.truncate(folder / "shrinks", 300_000)
    with tarfile.open(fileobj=io.BytesIO(first + b"".join(chunks))) as archive:
        assert len(archive.extractfile("shrinks").read()) == size


def test_a_bottomless_folder_ends(tmp_path: Path):
    folder = a_folder(tmp_path)
    deep = folder
    for _ in range(DEEPEST + 20):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with packed(tmp_path) as archive:
        assert len(archive.getnames()) == DEEPEST


def test_names_that_are_no_text_survive(tmp_path: Path):
    folder = a_folder(tmp_path)
    with open(os.fsencode(folder) + b"/\xff\xfe", "wb") as file:
        file.write(b"odd")
    with packed(tmp_path) as archive:
        (name,) = archive.getnames()
        assert os.fsencode(name) == b"\xff\xfe"


async def test_a_stream_given_up_halfway_leaves_no_descriptor_open(tmp_path: Path):
    (a_folder(tmp_path) / "big").write_bytes(bytes(3_000_000))
    before = len(os.listdir("/proc/self/fd"))
    stream = tar_stream(tmp_path, "results")
    await anext(stream)
    assert len(os.listdir("/proc/self/fd")) > before
    await stream.aclose()
    assert len(os.listdir("/proc/self/fd")) == before
