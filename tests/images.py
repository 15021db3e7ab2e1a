"""Container images for tests, made without any builder or registry: archives for `docker load`."""
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable

import pytest

BUSYBOX_IMAGE = "fairy-test/busybox:1"
SCRATCH_IMAGE = "fairy-test/scratch:1"
PASSWD = b"root:x:0:0:root:/root:/bin/sh\n"  # an image that has never heard of the session's own user


def busybox_image_tar() -> bytes:
    return image_tar(BUSYBOX_IMAGE, busybox_layer())


def busybox_layer() -> "Layer":
    """A static busybox under all its names: no bash, no glibc, no musl, no other user."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox: apt-get install busybox-static")
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with open(busybox, "rb") as file:
        program = file.read()
    layer = Layer()
    for folder in ("bin", "etc", "root", "usr", "usr/bin"):
        layer.folder(folder)
    layer.folder("tmp", 0o1777)
    layer.file("bin/busybox", program, 0o755)
    for name in names:
        if name != "busybox":
            layer.link(f"bin/{name}", "busybox")
    layer.file("etc/passwd", PASSWD)
    layer.file("etc/group", b"root:x:0:\n")
    return layer


def scratch_image_tar() -> bytes:
    """Nothing at all: only what is mounted into it can run."""
    return image_tar(SCRATCH_IMAGE, Layer())


class Layer:
    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w")  # noqa: SIM115 (closed by finished)

    def folder(self, path: str, mode: int = 0o755) -> None:
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(entry)

    def file(self, path: str, body: bytes, mode: int = 0o644) -> None:
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(body), mode
        self._tar.addfile(entry, io.BytesIO(body))

    def link(self, path: str, target: str) -> None:
        entry = tarfile.TarInfo(path)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(entry)

    def copy(self, folder: str, chosen: Callable[[tarfile.TarInfo], tarfile.TarInfo | None]) -> None:
        """A folder of this machine, at the same place."""
        self._tar.add(folder, folder.lstrip("/"), filter=chosen)

    def tree(self, folder: os.PathLike[str], path: str) -> None:
        """A folder of this machine, at another place, as root's."""
        self._tar.add(folder, path, filter=as_roots)

    def finished(self) -> bytes:
        self._tar.close()
        return self._bytes.getvalue()


def as_roots(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def image_tar(tag: str, layer: Layer, settings: dict[str, object] | None = None) -> bytes:
    """`settings`: what a Dockerfile would say (Env, User, Labels …), beside or instead of the usual."""
    body = layer.finished()
    digest = hashlib.sha256(body).hexdigest()
    config = json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": {"Cmd": ["/bin/sh"], "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], **(settings or {})},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}, "history": [{}],
    }).encode()  # fmt: skip
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]).encode()
    archive = Layer()
    for path, content in ((config_name, config), (f"{digest}/layer.tar", body), ("manifest.json", manifest)):
        archive.file(path, content)
    return archive.finished()
