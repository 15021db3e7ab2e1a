"""A real GPU in a session, reached by ssh. Only where there is one, with Podman or Docker; elsewhere it is skipped, and says so."""
import subprocess

import pytest
from gpu_scene import gpu_server, real_gpu
from test_ssh import Person

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def gpu():
    return real_gpu()


@pytest.fixture(scope="module")
def kim(gpu):
    with gpu_server(ssh=True) as (live, _):
        yield Person(live, "kim")


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
