"""A real GPU, a session in a container that computes on it, a real Prometheus that reads of it. Only where there is a GPU; else it is skipped."""
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.ports import free_port
from bench.server import ROOT
from gpu_scene import gpu_server, real_gpu

from gpufairy.client import Fairy
from prometheus import Prometheus, prometheus, promtool
from raw_http import ask
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

BURN = """
import torch, time
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
print("begun", flush=True)
end = time.time() + 150
while time.time() < end:
    for _ in range(100): b = a @ a
    torch.cuda.synchronize()
"""
LABELS = {"gpu", "pid", "command", "container"}


@pytest.fixture(scope="module")
def gpu():
    return real_gpu()


@pytest.fixture(scope="module")
def machine(gpu):
    with gpu_server(ssh=False) as found:
        yield found


@pytest.fixture(scope="module")
def server(machine):
    return machine[0]


@pytest.fixture(scope="module")
def burning(server):
    """The session, and the PIDs on the GPU as nvidia-smi tells them."""
    fairy = server.client()
    command = ["sh", "-c", f"LD_LIBRARY_PATH=/mnt/nvidia/lib64 exec python3 -c '{BURN}'"]
    body = {"name": "burn", "gpus": "1", "mounts": ["nvidia", "torch"], "memory": "32GiB", "command": command, "env": {"PYTHONPATH": "/mnt/torch"}}
    session = fairy.submit(body)
    wait_for_state(fairy, "burn", "RUNNING")
    until(smi_pids, "a process on the GPU", 120)
    until(lambda: works_on_gpu(fairy), "its work to be read", 60)
    yield session
    fairy.stop("burn")


def works_on_gpu(fairy: Fairy) -> bool:
    (node,) = fairy.nodes()
    processes = [process for gpu in node["gpus"] for process in gpu["processes"]]
    return any(process["active"] and (process["utilisation"] or 0.0) > 0.5 for process in processes)


def smi_pids() -> set[str]:
    done = subprocess.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], capture_output=True, check=True)
    return set(done.stdout.decode().split())


@contextlib.contextmanager
def exporter(folder: Path, engine: str) -> Iterator[str]:
    port = free_port()
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DOCKER_HOST": f"unix://{engine}"}
    command = [sys.executable, "-m", "gpufairy", "exporter", "--listen", f"127.0.0.1:{port}", "--textfile", str(folder), "--data", str(folder / "data")]
    running = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(10)


@pytest.fixture(scope="module")
def scraped(machine, server, burning, tmp_path_factory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with exporter(folder, machine[1]) as address, prometheus(folder, {"exporter": address, "server": server.url.removeprefix("http://")}) as found:
        yield found


@pytest.mark.parametrize("job", ["exporter", "server"])
def test_every_family_of_the_contract_has_the_sessions_process_with_nvidia_smis_pid(scraped, burning, server, job):
    rows = until(lambda: [row for row, _ in scraped.query(f'gpu_process_info{{job="{job}"}}') if row["status"] == "active"], "an active process", 60)
    assert {row["pid"] for row in rows} == smi_pids()
    (row,) = rows
    print(row)
    assert (row["gpu"], row["command"]) == ("0", "python3")
    assert {"pod", "namespace"}.isdisjoint(row)  # empty, which is the same to Prometheus
    assert "burn" in row["container"]
    assert int(row["gpu_memory"].removesuffix("MiB")) > 100
    for family in ("gpu_process_utilization", "gpu_process_memory_utilization"):
        ((labels, value),) = scraped.when_there(f'{family}{{job="{job}"}}')
        assert set(labels) >= LABELS
        assert {"status", "gpu_memory"}.isdisjoint(labels)
        print(family, value)
        assert 0 <= value <= 100
    assert scraped.query(f'gpu_process_utilization{{job="{job}"}} > 50')
    assert [value for _, value in scraped.query(f'gpu_session_count{{job="{job}"}}')] == [1]
    assert [value for _, value in scraped.query(f'gpu_total_sessions{{job="{job}"}}')] == [1]


def test_the_process_is_known_as_the_sessions_with_its_owner(scraped):
    ((labels, value),) = scraped.when_there('fairy_process_gpu_memory_bytes{job="server"}')
    assert (labels["session"], labels["user"]) == ("burn", "admin")
    assert value > 100e6


def test_what_a_hopper_can_tell_is_told(scraped):
    told = ("utilization_ratio", "memory_used_bytes", "power_watts", "energy_joules_total", "temperature_celsius", "sm_clock_hertz", "sm_active_ratio",
            "tensor_active_ratio", "dram_active_ratio", "pcie_sent_bytes_total", "ecc_uncorrected_errors_total", "power_limit_watts")  # fmt: skip
    for name in told:
        rows = scraped.when_there(f'fairy_gpu_{name}{{job="exporter"}}')
        print(name, rows[0][1])


def test_the_page_pleases_promtool(scraped, server):
    page = ask(server.url, "GET", "/metrics").body
    if out := os.environ.get("OUT"):
        Path(out, "metrics.txt").write_bytes(page)
    assert promtool("check", "metrics", given=page).returncode == 0


def test_smi_shows_who_is_on_the_gpu(server, burning):
    (node,) = server.client().nodes()
    (found,) = node["gpus"][0]["processes"]
    assert {str(found["pid"])} == smi_pids()
    assert (found["user"], found["session"], found["outside"]) == ("admin", "burn", False)
    assert found["utilisation"] > 0.5
