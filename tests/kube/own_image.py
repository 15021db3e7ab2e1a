"""gpufairy's own images in the cluster, made from this clone as deploy/image makes them for anybody."""
import fcntl
import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from bench.server import ROOT

from kube.cluster import Cluster

BUILDS = ROOT / "build" / "kube_image"
MADE_FROM = ("src/gpufairy", "native", "deploy/image/build.py", "docs/settings.md", "docs/settings.ko.md", "requirements.lock")
MAKING_S = 300.0
UNCHECKED = bytes([1, 0, 0, 0])  # in a .pyc: neither the time nor the text of its source is looked at


def own_image(cluster: Cluster, part: str = "server", *more_tags: str) -> str:
    """Its name, once the node has it. Made once for one state of the clone, and kept until the next."""
    found = state()
    tag = f"fairy-test/gpufairy-{part}:{found}"
    archive = BUILDS / f"{part}-{found}.tar"
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / f"{part}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            make(part, [tag, *more_tags], archive)
        listed = subprocess.run([*cluster.ctr_command, "images", "ls", "-q"], capture_output=True, text=True, check=True).stdout.split()
        if f"docker.io/{tag}" not in listed:
            cluster.import_image(archive)
    return f"docker.io/{tag}"


def state() -> str:
    found = hashlib.sha256(sys.version.encode())
    for name in MADE_FROM:
        for path in sorted((ROOT / name).rglob("*")) or [ROOT / name]:
            if path.is_file() and path.suffix != ".pyc":
                found.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def make(part: str, tags: list[str], archive: Path) -> None:
    for old in BUILDS.glob(f"{part}-*.tar"):
        old.unlink()  # some 100 MB each
    named = [word for tag in tags for word in ("--tag", tag)]
    command = [sys.executable, str(ROOT / "deploy" / "image" / "build.py"), "--part", part, *named, "--out", str(archive)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, timeout=MAKING_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def compiled_for_good(archive: Path) -> tuple[set[str], set[str]]:
    """Modules of ours in an image, by their names: all that there are, and those that no start has to compile, whatever the files' times."""
    sources, compiled = set(), set()
    with tarfile.open(archive) as image, tarfile.open(fileobj=image.extractfile("layer.tar"), mode="r|") as layer:
        for entry in layer:
            folder, _, module = entry.name.partition("/gpufairy/")[2].rpartition("/")
            if module.endswith(".py"):
                sources.add(f"{folder}/{module.removesuffix('.py')}")
            elif module.endswith(".pyc") and layer.extractfile(entry).read(8)[4:] == UNCHECKED:
                compiled.add(f"{folder.removesuffix('__pycache__').rstrip('/')}/{module.partition('.')[0]}")
    return sources, compiled
