"""The machines that pages are played on: a laptop with simulated GPUs, a server with a Docker of its own."""
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from box import Box

from daemons import RealDaemon, needs
from images import busybox_layer, image_tar
from waits import until

SETTINGS = """[server]
listen = "0.0.0.0"
[node]
cpus = {cpus}
memory = "{memory}"
"""
TRAIN = 'print("trained")\n'


@contextlib.contextmanager
def box() -> Iterator[Box]:
    with tempfile.TemporaryDirectory(prefix="fairy-doc-") as folder:
        made = Box(Path(folder) / "box")
        try:
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def laptop(*options: str) -> Iterator[Box]:
    """Sessions as processes. Large on paper, so that what pages ask for fits."""
    with box() as made:
        serve(made, "process", SETTINGS.format(cpus=64, memory="256GiB"), *options)
        yield made


@contextlib.contextmanager
def bare_server() -> Iterator[Box]:
    """Of an admin who is root, before anybody was let in."""
    with box() as made:
        del made.env["SUDO_USER"]
        serve(made, "process", SETTINGS.format(cpus=64, memory="256GiB"))
        yield made


@contextlib.contextmanager
def lab(*options: str) -> Iterator[Box]:
    """Sessions as containers, of an image that is called what pages call it."""
    needs("dockerd", "nft", package="docker.io nftables")
    with box() as made:
        made.done(f"mkdir -p /run/docker && (setsid dockerd --bridge none --data-root {made.folder}/docker >{made.folder}/docker.log 2>&1 </dev/null &)")
        daemon = RealDaemon("docker", made.folder, [])
        daemon.socket = made.seen_from_here("/run/docker.sock")
        until(daemon.answers, "docker to answer")
        for name in ("debian:12", "debian:12-root", "pytorch:2.7"):
            layer = busybox_layer()
            layer.link("bin/python", "/opt/fairy/bin/python3")  # the one that our own tools bring along
            daemon.load(image_tar(name, layer))
        try:
            serve(made, "docker", SETTINGS.format(cpus=2, memory="4GiB") + IMAGES, *options)
            made.done(f"fairy run --gpus 0 -- true && (cd /var/lib/gpufairy/sessions/home/minji && cp {made.work}/*.py . && chown --reference=. *.py)")
            yield made
        finally:
            daemon.clean()  # their cgroups are this machine's, and would outlive the box


IMAGES = """[images]
default = "debian:12"
allow = ["debian:*", "pytorch:*"]
root = ["debian:12-root"]
[folders.datasets]
path = "/srv/datasets"
[ssh]
preset = "desk"
[presets.desk]
gpus = "0.5"
cpus = 0.5
memory = "1GiB"
time = "8h"
"""


def serve(made: Box, engine: str, settings: str, *options: str) -> None:
    """Started as a person starts it: by `sudo`, as minji."""
    made.done("mkdir -p /srv/datasets/imagenet /etc/gpufairy; cat > /etc/gpufairy/fairy.toml", settings)
    simulate = "" if "--simulate" in options else "--simulate 2xA100-40GB"
    made.done(f"fairy up -d --engine {engine} {simulate} --data /var/lib/gpufairy --config /etc/gpufairy/fairy.toml {' '.join(options)}")
    if made.env.get("SUDO_USER"):
        made.done("fairy team add nlp && fairy user team minji nlp")
    made.done("fairy token create --label docs > /root/docs.token")
    for name in ("train.py", "evaluate.py", "sweep.py"):
        (made.work / name).write_text(TRAIN)
