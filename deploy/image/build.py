"""Makes gpufairy's container images from this machine's own Python, programs and libraries: without a builder, a registry or a base image.

    python deploy/image/build.py --out gpufairy.tar                     an archive for `docker load`, `ctr images import`, `skopeo copy`
    python deploy/image/build.py --part tools --out gpufairy-tools.tar  the second image: what sessions find at /opt/fairy
    python deploy/image/build.py --root FOLDER                          the same files in a folder, as deploy/image/Dockerfile has them

Run it by the Python whose packages are those of requirements.lock (`./fairy --version` makes .venv with them).
"""
import argparse
import compileall
import hashlib
import importlib.metadata
import io
import json
import platform
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import BinaryIO, cast

from gpufairy import __version__
from gpufairy.core.errors import EngineRefused
from gpufairy.engines.build_native import build, find_sources
from gpufairy.engines.native_parts import PARTS as NATIVE
from gpufairy.engines.native_parts import hash_of
from gpufairy.engines.native_shipped import write_note
from gpufairy.engines.tools import build_tools
from gpufairy.engines.tools_libraries import libraries_of, usable_loader
from gpufairy.engines.tools_python import LIBRARY, copy_python, interpreter

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = "opt/gpufairy"
USER_ID = 10001  # whom the server runs as, unless told otherwise
PROGRAMS = (
    "sh bash cat chmod cp df du echo env find grep head hostname id kill ln ls mkdir mv ps readlink rm sed sleep sort stat tail tar touch "
    "true uname wc"
).split()
LINKED = ("bin", "sbin", "lib", "lib64")  # into /usr, on most machines
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
TEXTS = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nfairy:x:{USER_ID}:{USER_ID}:gpufairy:/data/home:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": f"root:x:0:\nfairy:x:{USER_ID}:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
COMMAND = f"#!/{HOME}/bin/python3 -P\nfrom gpufairy.cli.entry import run\n\nrun()\n"
LABELS = {"version": __version__, "licenses": "Apache-2.0"}
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = f"/{HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOOLS_HOME = "opt/fairy"
TOOLS_FOLDERS = ("bin", "lib", "libexec", "share")
MOUNTED_ON = "etc home mnt run shared".split()  # where a pod that has nothing but the tools finds the files of its user


@dataclass(frozen=True)
class Part:
    """One image."""

    name: str
    fill: Callable[[Path], None]
    home: str  # below which its Python lies
    settings: dict[str, object]


def fill(part: Part, root: Path) -> None:
    """Modules are compiled here for good: a pod that may not write would do it at every start. What is compiled holds whatever the times
    of its files, since who copies them, as pods do with the tools, changes those; and it has no path of this machine in it."""
    part.fill(root)
    compileall.compile_dir(
        root / part.home / LIBRARY, stripdir=root, prependdir="/", quiet=2, maxlevels=20, force=True, workers=0,
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip


def fill_server(root: Path) -> None:
    """An empty folder with Python, its packages and all of gpufairy, a shell and what goes with it: for the server, and for agents."""
    for name in LINKED:
        if (Path("/") / name).is_symlink():
            (root / name).symlink_to((Path("/") / name).readlink())
            (root / name).resolve().mkdir(parents=True, exist_ok=True)
    for name, mode in (("tmp", 0o1777), ("root", 0o700), ("data", 0o755), ("etc", 0o755), ("opt", 0o755), ("usr/bin", 0o755)):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
    for name, text in TEXTS.items():
        (root / name).write_text(text)
    objects = [*put_gpufairy(root / HOME), *put_programs(root)]
    put_libraries(root, objects)
    if (Path("/") / CERTIFICATES).exists():
        put(Path("/") / CERTIFICATES, root / CERTIFICATES)


def put_gpufairy(home: Path) -> list[Path]:
    """Says which of its files need libraries."""
    compiled = copy_python(home, locked_packages())
    package = home / LIBRARY / "gpufairy"
    for name in ("settings.md", "settings.ko.md"):
        put(REPOSITORY / "docs" / name, package / "web" / name)
    put(interpreter(), home / "bin" / "python3")
    (home / "bin" / "fairy").write_text(COMMAND)
    (home / "bin" / "fairy").chmod(0o755)
    with tempfile.TemporaryDirectory() as folder:
        native, ready = build(Path(folder)).porter.parent, package / "native_bin" / platform.machine()
        for name in NATIVE:
            put(native / name, ready / name)
    write_note(ready, hash_of(find_sources(), platform.machine()))
    return [interpreter(), *compiled]


def locked_packages() -> list[Distribution]:
    """Those of requirements.lock that this machine takes; of another version than there, none is put into an image."""
    locked = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)
    versions: dict[str, set[str]] = {}
    for name, version in locked:
        versions.setdefault(name, set()).add(version)
    found = []
    for name, good in versions.items():
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # for another platform
            continue
        if package.version not in good:
            wanted = " or ".join(sorted(good))
            raise SystemExit(f"{sys.executable} has {name} {package.version}, requirements.lock {wanted}: run this by .venv/bin/python.")
        found.append(package)
    return found


def put_programs(root: Path) -> list[Path]:
    found = {name: Path(path) for name in PROGRAMS if (path := shutil.which(name))}
    for path in found.values():
        place = root / path.parent.resolve().relative_to("/") / path.name
        put(path.resolve(), place)
    return [path.resolve() for path in found.values()]


def put_libraries(root: Path, objects: Iterable[Path]) -> None:
    """Each where this machine has it, if its loader looks there by itself; else beside libc. Those that packages bring are there."""
    loader = usable_loader(interpreter())
    found = {**libraries_of(loader, objects), loader.name: loader}
    usual = found["libc.so.6"].parent.resolve()
    for name, path in found.items():
        folder = path.parent.resolve()
        if not folder.is_relative_to(root):
            place = folder if folder.is_relative_to("/usr") or folder.is_relative_to("/lib") else usual
            put(path.resolve(), root / place.relative_to("/") / name)


def fill_tools(root: Path) -> None:
    """At /opt/fairy, for a pod that copies them or has nothing else; and by links in its root, so that the whole of it can be mounted at
    /opt/fairy of another: containerd 2.1 cannot yet take one folder of an image as a volume."""
    for name, mode in (("tmp", 0o1777), ("opt", 0o755), *((name, 0o755) for name in MOUNTED_ON)):
        (root / name).mkdir()
        (root / name).chmod(mode)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        tools = build_tools(Path(folder))
        for name, advice in tools.missing.items():
            sys.stderr.write(f"sessions will have no {name}: this machine has none ({advice})\n")
        tools.folder.rename(root / TOOLS_HOME)
    for name in TOOLS_FOLDERS:
        (root / name).symlink_to(f"{TOOLS_HOME}/{name}")


def put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


PARTS = {
    "server": Part("gpufairy", fill_server, HOME, {
        "Entrypoint": ["fairy"], "Cmd": ["--help"], "User": f"{USER_ID}:{USER_ID}", "WorkingDir": "/data",
        "Env": [f"PATH={PATH}", "HOME=/data/home", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"],
    }),
    "tools": Part("gpufairy-tools", fill_tools, TOOLS_HOME, {
        "Cmd": ["bash"], "User": f"{USER_ID}:{USER_ID}", "Env": [f"PATH=/{TOOLS_HOME}/bin", "LANG=C.UTF-8"],
    }),
}  # fmt: skip


class Hashing:
    """A file that keeps the digest of what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self._file.write(content)


def write_archive(root: Path, part: Part, tags: list[str], out: Path) -> None:
    """In the form of `docker save`, with one layer, which is written once: what must be known before it is put there afterwards."""
    beside = out.with_name(f".{out.name}.new")
    with beside.open("wb") as file:
        file.write(bytes(tarfile.BLOCKSIZE))
        layer = Hashing(file)
        with tarfile.open(fileobj=cast(BinaryIO, layer), mode="w|", format=tarfile.GNU_FORMAT) as files:
            files.add(root, ".", filter=nobodys)
        head = tarfile.TarInfo("layer.tar")
        head.size = file.tell() - tarfile.BLOCKSIZE  # whole blocks, as every archive
        put_texts(file, part, tags, layer.digest.hexdigest())
        file.seek(0)
        file.write(head.tobuf(tarfile.GNU_FORMAT))
    beside.replace(out)


def put_texts(file: BinaryIO, part: Part, tags: list[str], digest: str) -> None:
    labels = {f"org.opencontainers.image.{name}": text for name, text in {"title": part.name, **LABELS}.items()}
    config = json.dumps({
        "architecture": MACHINES.get(platform.machine(), platform.machine()), "os": "linux", "history": [{}],
        "config": {**part.settings, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }).encode()  # fmt: skip
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": tags, "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(fileobj=file, mode="w") as image:
        for name, body in ((config_name, config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            image.addfile(entry, io.BytesIO(body))


def nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whoever made it, in the image it is root's; only the place of what is kept is the server's."""
    entry.uid = entry.gid = USER_ID if entry.name == "./data" else 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--part", choices=[*PARTS], default="server", help="which of the two images")
    asked.add_argument("--tag", action="append", help="its name; more than one may be given")
    target = asked.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", type=Path, help="the archive to write")
    target.add_argument("--root", type=Path, help="an empty or new folder to fill")
    told = asked.parse_args()
    part = PARTS[told.part]
    try:
        if told.root is not None:
            told.root.mkdir(parents=True, exist_ok=True)
            fill(part, told.root.resolve())
            return
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            fill(part, Path(folder).resolve())
            write_archive(Path(folder), part, told.tag or [f"{part.name}:{__version__}"], told.out.absolute())
    except EngineRefused as error:
        raise SystemExit(f"{error} {error.next}") from None


if __name__ == "__main__":
    main()
