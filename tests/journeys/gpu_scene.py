"""A machine with a real GPU: its own programs as an image, and a server on its container engine."""
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.server import LiveServer

from daemons import make_docker, make_podman, running
from gpufairy.core.node import Gpu
from gpufairy.devices.nvidia import found_nvidia
from images import Layer, image_tar

IMAGE = "fairy-test/host:1"
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64")
DRIVER_FILES = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-gpucomp.so.*", "libnvidia-nvvm.so.*")
PROGRAMS = ("bash", "sh", "ls", "cat", "env", "id", "grep", "head", "python3", "python3.12", "python3.11")


def host_image() -> bytes:
    """This machine's own programs and libraries as an image: enough for Python and whatever the driver's libraries need."""
    layer = Layer()
    for name in ("bin", "lib", "lib64"):
        if Path(f"/{name}").is_symlink():
            layer.link(name, os.readlink(f"/{name}"))
    for program in PROGRAMS:
        if (path := shutil.which(program, path="/usr/bin")) is not None:
            layer.file(f"usr/bin/{program}", Path(path).read_bytes(), 0o755)
    for folder in (*LIBRARIES, *map(str, Path("/usr/lib").glob("python3*"))):
        if Path(folder).is_dir() and not Path(folder).is_symlink():
            layer.copy(folder, lambda entry: None if "/libnvidia" in entry.name or "/libcud" in entry.name else entry)
    layer.folder("etc")
    layer.folder("tmp", 0o1777)
    return image_tar(IMAGE, layer)


def real_gpu() -> Gpu:
    found = found_nvidia()
    if not found.gpus:
        pytest.skip(f"no NVIDIA GPU on this machine {found.trouble}")
    return found.gpus[0]


@contextlib.contextmanager
def driver_by_cdi(gpu: Gpu) -> Iterator[None]:
    """As NVIDIA's toolkit describes it, where that is not installed: the GPU's files, and the driver's libraries where programs look for them."""
    driver = Path(os.environ.get("FAIRY_TEST_DRIVER", "/usr/local/nvidia"))
    found = [path for name in DRIVER_FILES for path in driver.glob(f"lib64/{name}")] + [driver / "bin" / "nvidia-smi"]
    inside = {path: f"/usr/bin/{path.name}" if path.parent.name == "bin" else f"{LIBRARIES[0]}/{path.name}" for path in found}
    mounts = [{"hostPath": os.path.realpath(path), "containerPath": target, "options": ["ro", "bind"]} for path, target in inside.items()]
    nodes = [f"/dev/nvidia{gpu.index}", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    edits = {"deviceNodes": [{"path": node} for node in nodes if Path(node).exists()], "mounts": mounts}
    devices = [{"name": gpu.uuid, "containerEdits": edits}]
    spec = Path("/var/run/cdi") / f"fairy-test-{gpu.uuid}.json"
    spec.parent.mkdir(exist_ok=True)
    spec.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}))
    try:
        yield
    finally:
        spec.unlink()


@contextlib.contextmanager
def gpu_server(*, ssh: bool, more: str = "") -> Iterator[tuple[LiveServer, str]]:
    """And the socket of its container engine. `more`: settings."""
    folder = Path(tempfile.mkdtemp(prefix="fairy-gpu-"))
    driver = os.path.realpath(os.environ.get("FAIRY_TEST_DRIVER", "/usr/local/nvidia"))
    python = os.environ.get("FAIRY_TEST_TORCH", "/opt/torch/.venv/lib/python3.12/site-packages")
    settings = f"[images]\ndefault = '{IMAGE}'\n[folders.nvidia]\npath = '{driver}'\n[folders.torch]\npath = '{python}'\n[docker]\nsocket = '{{socket}}'\n"
    with running(make_podman if shutil.which("podman") else make_docker) as daemon:
        daemon.load(host_image())
        with LiveServer(folder, settings.format(socket=daemon.socket) + more, engine="docker", ssh=ssh) as live:
            yield live, str(daemon.socket)
    shutil.rmtree(folder)
