"""A real GPU in a session, reached by ssh. Only where there is one, with Podman or Docker; elsewhere it is skipped, and says so."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench.server import LiveServer
from test_ssh import Person

from daemons import make_docker, make_podman, running
from gpufairy.devices.nvidia import found_nvidia
from images import Layer, image_tar

pytestmark = [pytest.mark.system, pytest.mark.slow]

IMAGE = "fairy-test/host:1"
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64")
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


@pytest.fixture(scope="module")
def gpu():
    found = found_nvidia()
    if not found.gpus:
        pytest.skip(f"no NVIDIA GPU on this machine {found.trouble}")
    return found.gpus[0]


@pytest.fixture(scope="module")
def kim(gpu):
    folder = Path(tempfile.mkdtemp(prefix="fairy-gpu-"))
    driver = os.path.realpath(os.environ.get("FAIRY_TEST_DRIVER", "/usr/local/nvidia"))
    python = os.environ.get("FAIRY_TEST_TORCH", "/opt/torch/.venv/lib/python3.12/site-packages")
    settings = f"[images]\ndefault = '{IMAGE}'\n[folders.nvidia]\npath = '{driver}'\n[folders.torch]\npath = '{python}'\n[docker]\nsocket = '{{socket}}'\n"
    with running(make_podman if shutil.which("podman") else make_docker) as daemon:
        daemon.load(host_image())
        with LiveServer(folder, settings.format(socket=daemon.socket), engine="docker", ssh=True) as live:
            yield Person(live, "kim")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def session(kim):
    body = {"name": "gpu", "kind": "interactive", "gpus": "1", "mounts": ["nvidia", "torch"], "memory": "32GiB"}
    kim.client.submit({**body, "env": {"PYTHONPATH": "/mnt/torch"}})
    return "gpu"


LOADED = "export LD_LIBRARY_PATH=/mnt/nvidia/lib64; "


def test_nvidia_smi_shows_the_gpu_by_ssh(kim, session, gpu):
    done = kim.ssh(f"{LOADED} /mnt/nvidia/bin/nvidia-smi --query-gpu=uuid,name --format=csv,noheader", session=session)
    print(done.stdout.decode(), done.stderr.decode())
    assert gpu.uuid in done.stdout.decode(), done.stderr


def test_torch_computes_on_it_by_ssh(kim, session):
    script = "import torch; a = torch.ones(2048, 2048, device='cuda'); print(torch.cuda.get_device_name(), int((a @ a).sum().item()) // 2048**3)"
    done = kim.ssh(f"{LOADED} python3 -c {script!r}" if '"' in script else f'{LOADED} python3 -c "{script}"', session=session)
    print(done.stdout.decode(), done.stderr.decode()[-500:])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.decode().split()[-1] == "1"


def test_a_session_without_a_gpu_sees_none(kim, session):
    kim.client.submit({"name": "nogpu", "kind": "interactive", "gpus": "0", "mounts": ["nvidia"]})
    done = kim.ssh(f"ls /dev; {LOADED} NVIDIA_VISIBLE_DEVICES=all /mnt/nvidia/bin/nvidia-smi", session="nogpu")
    print(done.stdout.decode(), done.stderr.decode())
    assert done.returncode != 0
    assert b"nvidia" not in done.stdout.partition(b"NVIDIA")[0]


def test_the_gpu_is_gone_from_the_free_ones_while_it_is_held(kim, session):
    held = [entry for node in kim.client.nodes() for gpu in node["gpus"] for entry in gpu["holders"]]
    assert [(entry["session"], entry["owner"]) for entry in held] == [("gpu", "kim")]
    assert subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=True).stdout
