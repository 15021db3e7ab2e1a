"""Two sessions with half of a real GPU each: what they see, what they get, and what the self-test says. Only where there is a GPU."""
import json
import os

import pytest
from gpu_scene import driver_by_cdi, gpu_server, real_gpu

from waits import wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]
MIB, GIB = 2**20, 2**30
# The GPU's compute mode is left alone, unless somebody says that it may be changed on this machine.
EXCLUSIVE = os.environ.get("FAIRY_TEST_EXCLUSIVE", "") == "1"
SETTINGS = f"[gpus]\nexclusive = {str(EXCLUSIVE).lower()}\n[selftest]\nnightly = 'off'\n"
TORCH = """
import json, torch
free, total = torch.cuda.mem_get_info()
held, refused = [], ""
try:
    while len(held) < 200:
        held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    refused = str(error).splitlines()[0]
print(json.dumps({"total": total, "gib": len(held), "sms": torch.cuda.get_device_properties(0).multi_processor_count, "refused": refused}))
"""


@pytest.fixture(scope="module")
def gpu():
    return real_gpu()


@pytest.fixture(scope="module")
def live(gpu):
    with driver_by_cdi(gpu), gpu_server(ssh=False, more=SETTINGS) as (started, _):
        yield started


def said(live, name):
    ended = wait_for_state(live.client(), name, "ENDED", limit_s=180)
    text = b"".join(live.client().logs(ended["id"])).decode(errors="replace")
    assert ended["exit_code"] == 0, (ended["why"], text[-3000:], live.log[-3000:])
    return text


def test_two_halves_at_once_see_and_get_half_each(live, gpu):
    client, body = live.client(), {"gpus": "0.5", "memory": "24GiB", "cpus": 4, "mounts": ["torch"]}
    for name in ("one", "two"):
        client.submit({**body, "name": name, "env": {"PYTHONPATH": "/mnt/torch"}, "command": ["python3", "-c", TORCH]})
    client.submit({**body, "name": "smi", "gpus": "0.5", "command": ["sh", "-c", "nvidia-smi; nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits"]})
    half = gpu.memory_bytes // 2
    for name in ("one", "two"):
        text = said(live, name)
        print(name, text)
        found = json.loads(text.splitlines()[-1])
        assert found["total"] == half
        assert half // GIB - 2 <= found["gib"] <= half // GIB
        assert found["sms"] <= 66
        assert "out of memory" in found["refused"]
    text = said(live, "smi")
    print(text)
    assert int(text.splitlines()[-1]) == pytest.approx(half / MIB, abs=1)


def test_the_self_test_finds_memory_and_multiprocessors_enforced(live, gpu):
    done = live.fairy("selftest", "isolation", "--json", timeout=500)
    assert done.stdout, (done.stderr, live.log[-3000:])
    tests = json.loads(done.stdout)
    assert tests, (live.fairy("selftest", "isolation", timeout=500).stdout, live.log[-3000:])
    (test,) = tests
    print(live.fairy("selftest", "show", env={**live.env, "COLUMNS": "200"}).stdout)
    assert {what: test[what] for what in ("memory", "sm", "devices")} == dict.fromkeys(("memory", "sm", "devices"), "enforced")
    assert done.returncode == 0
    client = live.client()
    client.submit({"name": "after", "gpus": "0.5", "command": ["python3", "-c", "import time; time.sleep(600)"]})
    (seat,) = wait_for_state(client, "after", "RUNNING", limit_s=60)["seat"]["gpus"]
    assert (seat["enforced"], seat["accounted"], seat["sharing"]) == (["memory", "sm"], [], "mps")
    client.stop("after")


def test_a_whole_gpu_is_whole_again_when_nobody_shares_it(live, gpu):
    client = live.client()
    body = {"name": "whole", "gpus": "1", "memory": "24GiB", "mounts": ["torch"], "env": {"PYTHONPATH": "/mnt/torch"}}
    script = "import torch; print(torch.cuda.mem_get_info()[1], torch.cuda.get_device_properties(0).multi_processor_count)"
    client.submit({**body, "command": ["python3", "-c", script]})
    total, sms = map(int, said(live, "whole").split()[-2:])
    assert total > gpu.memory_bytes * 0.98
    assert sms > 66
