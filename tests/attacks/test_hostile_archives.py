"""Archives made to harm whoever opens them: names that lead elsewhere, links, devices, headers of gigabytes."""
import gzip
import io
import tarfile
import tracemalloc

import pytest

from gpufairy.cli.results import fetch
from gpufairy.core.errors import BadInput
from gpufairy.store.backup_archive import read_manifest, unpack

MOST_MEMORY = 24 * 2**20
BOMB = 4 * MOST_MEMORY  # bytes that the header says to have; packed they are half a MiB


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname, made.mode = kind, len(data), target, mode
    return made, data


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


HOSTILE = {
    "above": member("../owned", b"x"), "absolute": member("/tmp/fairy-owned-by-a-tar", b"x"), "link": member("link", kind=tarfile.SYMTYPE, target="/etc"),
    "through the link": member("link/owned", b"x"), "hard link": member("hard", kind=tarfile.LNKTYPE, target="/etc/passwd"),
    "hard link above": member("hard2", kind=tarfile.LNKTYPE, target="../canary"), "device": member("zero", kind=tarfile.CHRTYPE),
    "pipe": member("pipe", kind=tarfile.FIFOTYPE), "link above": member("up", kind=tarfile.SYMTYPE, target=".."), "through it": member("up/owned", b"x"),
}  # fmt: skip


class OneArchive:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def results(self, _session_id: str):
        yield from (self._data[at : at + 1000] for at in range(0, len(self._data), 1000))


def test_results_that_lead_elsewhere_are_left_out_and_told(tmp_path):
    (tmp_path / "canary").write_text("untouched")
    data, told = tar_of(*HOSTILE.values(), member("good", b"kept"), member("tool", b"#!/bin/sh\n", mode=0o6777)), []
    folder = fetch(OneArchive(data), {"id": "x", "name": "../../x"}, tmp_path / "results", told.append)
    assert folder is not None
    assert folder.parent == tmp_path / "results"
    assert (folder / "good").read_bytes() == b"kept"
    assert (folder / "tool").stat().st_mode & 0o6022 == 0
    assert (tmp_path / "canary").read_text() == "untouched"
    assert {path.name for path in tmp_path.iterdir()} == {"canary", "results"}
    assert not [path for path in folder.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
    assert len(told) >= len(HOSTILE) - 3  # names with / in front are taken as below


@pytest.mark.parametrize("nonsense", [b"x" * 5000, tar_of(member("a", b"x"))[:700], b"\xff" * 512 + bytes(1024)])
def test_results_of_nonsense_are_a_sentence(tmp_path, nonsense):
    try:
        fetch(OneArchive(nonsense), {"id": "x", "name": "x"}, tmp_path, lambda _: None)
    except BadInput as error:
        assert "cannot put the results" in str(error)


@pytest.fixture(scope="module")
def zeros():
    return gzip.compress(bytes(4 * MOST_MEMORY), compresslevel=1)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_of_gigabytes_is_not_read_into_memory(tmp_path, kind, zeros):
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, BOMB
    bomb = tmp_path / "bomb.tar.gz"
    bomb.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT)) + zeros)
    tracemalloc.start()
    try:
        for read in (read_manifest, lambda path: unpack(path, tmp_path)):
            with pytest.raises(BadInput):
                read(bomb)
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
