"""What a session has changed, told from inside and made into a layer: the files of a folder stand for those of a container."""
import gzip
import hashlib
import io
import json
import os
import random
import tarfile
import time
from pathlib import Path

import pytest

from gpufairy.core.errors import EngineRefused
from gpufairy.engines import layer_file
from gpufairy.engines.layer_file import Bounds, LayerFile
from gpufairy.engines.layer_inside import mount_points, names_in, tell_changes

ROOM = Bounds(2**30, ("home/kim", "opt/fairy", "run"))
A_LINE = {"kind": "file", "path": "opt/a", "mode": 0o644, "uid": 1, "gid": 1, "mtime": 0, "size": 3}


@pytest.fixture
def root(tmp_path):
    """An image's files, and the moment at which its container was made."""
    base = tmp_path / "root"
    for folder in ("opt/tool", "usr/bin", "home/kim", "tmp"):
        (base / folder).mkdir(parents=True)
    (base / "usr/bin/sh").write_text("old")
    (base / "opt/tool/old").write_text("old")
    marker = tmp_path / "made-with-the-container"
    until_later(marker, base / "opt/tool/old")
    return base, os.lstat(marker).st_ctime_ns


def until_later(marker: Path, than: Path) -> None:
    """The clock of files goes in steps of some milliseconds."""
    while not marker.exists() or marker.stat().st_ctime_ns <= than.stat().st_ctime_ns:
        marker.write_text("")
    seen = marker.stat().st_ctime_ns
    probe = marker.with_suffix(".probe")
    while not probe.exists() or probe.stat().st_ctime_ns <= seen:
        probe.write_text("")


def told(root, mounts=frozenset()) -> bytes:
    base, since_ns = root
    out = io.BytesIO()
    tell_changes(out, base, {f"{base}/{mount}" for mount in mounts}, since_ns)
    return out.getvalue()


def made(stream: bytes, bounds=ROOM, chunk=1000) -> tuple[LayerFile, bytes]:
    file = io.BytesIO()
    file.fileno = lambda: 0  # whose disk is looked at for room
    layer = LayerFile(file, bounds)
    for start in range(0, len(stream), chunk):
        layer.feed(stream[start : start + chunk])
    digest, diff_id = layer.finish()
    packed = file.getvalue()
    assert digest == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    assert diff_id == f"sha256:{hashlib.sha256(gzip.decompress(packed)).hexdigest()}"
    assert layer.size_bytes == len(packed)
    return layer, gzip.decompress(packed)


def entries(tar: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(tar), encoding="utf-8", errors="surrogateescape") as opened:
        return {one.name: one for one in opened.getmembers()}


def line(**more) -> bytes:
    return json.dumps({**A_LINE, **more}).encode() + b"\n"


def test_nothing_changed_is_an_empty_layer(root):
    layer, tar = made(told(root))
    assert (entries(tar), layer.changed_folders) == ({}, [])


def test_what_was_made_or_changed_is_told_with_the_folders_above_it(root):
    base, _ = root
    (base / "opt/tool/new").mkdir()
    (base / "opt/tool/new/program").write_text("program")
    (base / "opt/tool/new/program").chmod(0o755)
    (base / "usr/bin/sh").write_text("new")
    (base / "opt/tool/link").symlink_to("/usr/bin/sh")
    layer, tar = made(told(root))
    found = entries(tar)
    assert set(found) == {"opt", "opt/tool", "opt/tool/new", "opt/tool/new/program", "opt/tool/link", "usr", "usr/bin", "usr/bin/sh"}
    assert (found["opt/tool/new/program"].mode, found["opt/tool/link"].linkname) == (0o755, "/usr/bin/sh")
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        assert opened.extractfile("usr/bin/sh").read() == b"new"
    assert set(layer.changed_folders) == {"opt/tool", "opt/tool/new"}


def test_mounts_are_left_out_and_what_they_were_mounted_on(root):
    base, _ = root
    (base / "home/kim/secret").write_text("home")
    (base / "opt/fairy").mkdir()
    _, tar = made(told(root, {"home/kim", "opt/fairy"}))
    assert entries(tar) == {}


def test_two_names_of_one_file_stay_two_names(root):
    base, _ = root
    (base / "opt/a").write_text("same")
    os.link(base / "opt/a", base / "opt/b")
    _, tar = made(told(root))
    assert (entries(tar)["opt/b"].type, entries(tar)["opt/b"].linkname) == (tarfile.LNKTYPE, "opt/a")


def test_odd_names_come_through_as_they_are(root):
    base, _ = root
    names = ["new\nline", "한글", "spa ce", "x" * 200, os.fsdecode(b"\xff\xfe")]
    for name in names:
        (base / "opt" / name).write_bytes(b"x")
    _, tar = made(told(root))
    assert {f"opt/{name}" for name in names} <= set(entries(tar))


def test_a_file_that_cannot_be_read_is_counted(root, monkeypatch):
    base, _ = root
    (base / "opt/closed").write_text("x")

    def closed(*_):
        raise PermissionError

    monkeypatch.setattr(os, "open", closed)
    stream = told(root)
    monkeypatch.undo()
    assert made(stream)[0].left_out == 1


def test_what_is_gone_is_said_as_layers_say_it(root):
    base, _ = root
    before = {"/opt/tool": names_in(str(base / "opt/tool"))}
    (base / "opt/tool/old").unlink()
    file = io.BytesIO()
    file.fileno = lambda: 0
    layer = LayerFile(file, ROOM)
    layer.feed(told(root))
    assert "opt/tool" in layer.changed_folders
    for name in before["/opt/tool"]:
        layer.gone(f"opt/tool/{name}")
    layer.finish()
    assert "opt/tool/.wh.old" in entries(gzip.decompress(file.getvalue()))


def test_mount_points_are_read_with_their_spaces():
    text = "22 1 0:20 / / rw - overlay overlay rw\n23 22 0:5 / /mnt/a\\040b rw - tmpfs tmpfs rw\n"
    assert mount_points(text) == {"/mnt/a b"}


def test_bits_that_give_rights_away_are_dropped():
    _, tar = made(line(mode=0o6755) + b"abc" + b'{"kind": "end", "left_out": 0}\n')
    assert entries(tar)["opt/a"].mode == 0o755


@pytest.mark.parametrize("stream", [
    line(path="../etc/passwd"), line(path="/etc/passwd"), line(path="a//b"), line(path="a/./b"), line(path=""), line(path="a\0b"), line(path=7),
    line(path="home/kim/x"), line(path="opt/fairy/bin/x"), line(path="run/x"), line(path="opt/.wh.a"), line(path="x" * 5000),
    line(kind="device"), line(kind="symlink"), line(kind="hard", target="etc/shadow"), line(kind="symlink", target=""),
    line(size=-1), line(size="3"), line(size=True), line(uid=2**40), line(mode=None), line(mtime=1e400),
    line(size=0) * 2, line(kind="symlink", target="/etc") + line(path="opt/a/b"), line(size=0) + line(path="opt/a/b"),
    b"[]\n", b"{\n", b"nonsense\n", b"x" * 70_000, b"[" * 60_000 + b"\n", b'{"kind": "end", "left_out": 0}\n' + line(size=0),
], ids=range(31))  # fmt: skip
def test_what_cannot_be_is_refused(stream):
    with pytest.raises(EngineRefused):
        made(stream + b'{"kind": "end", "left_out": 0}\n')


@pytest.mark.parametrize("stream", [b"", line(), line() + b"ab", line(size=0), b'{"kind": "end", "left'])
def test_one_that_breaks_off_is_no_layer(stream):
    with pytest.raises(EngineRefused, match="broke off"):
        made(stream)


def test_no_session_fills_the_servers_disk(monkeypatch):
    with pytest.raises(EngineRefused, match="more than"):
        made(line(size=2**40) + bytes(2**20), Bounds(2**19, ()))
    monkeypatch.setattr(layer_file, "LEAST_FREE", 2**62)
    with pytest.raises(EngineRefused, match="no room to make the image on"):
        made(line() + b"abc" + b'{"kind": "end", "left_out": 0}\n')


def test_a_disk_that_is_full_is_a_sentence():
    with open("/dev/full", "wb", buffering=0) as full:
        layer = LayerFile(full, ROOM)
        with pytest.raises(EngineRefused, match="No space left on device"):
            layer.feed(line(size=2**20) + random.Random(1).randbytes(2**20))


def test_anything_at_all_is_a_layer_or_a_refusal(root):
    """Streams cut, joined and with bytes changed, a thousand of them, in bounded time."""
    base, _ = root
    (base / "opt/a").write_bytes(bytes(5000))
    (base / "opt/b").symlink_to("a")
    good, chance = told(root), random.Random(7)
    began = time.monotonic()
    for _ in range(1000):
        stream = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(stream))
            stream[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        try:
            made(bytes(stream), chunk=chance.randint(1, 4000))
        except EngineRefused:
            continue
    assert time.monotonic() - began < 30
