"""Many sessions on a Kubernetes of its own with pretended nodes, for benchmarks: a server, its sessions submitted, and bare pods beside."""
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from bench.server import LiveServer
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.watch import Watched
from kube.cluster import Cluster

NAMESPACE, BARE = "bench-sessions", "bench-bare"
AT_ONCE = 50  # creations of bare pods on their way
SUBMITTERS = 8
LOOK_S = 0.5
PATIENCE_S = 900.0
KIND = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
SETTINGS = """
[images]
default = "registry.example.org/torch:1"
[kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
tools_image = "registry.example.org/gpufairy-tools:1"
homes.access = "none"
"""


@contextlib.contextmanager
def server_of(cluster: Cluster) -> Iterator[LiveServer]:
    cluster.namespace(NAMESPACE)
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        settings = SETTINGS.format(kubeconfig=cluster.kubeconfig, namespace=NAMESPACE)
        server = LiveServer(Path(folder) / "fairy", settings, engine="kubernetes").start()
        try:
            yield server
        finally:
            server.stop()  # its sessions end with the cluster


async def submit_all(server: LiveServer, count: int) -> tuple[float, list[float]]:
    """Seconds from the first submit until the server says of all that they run, and of each submit."""
    left, took_s = iter(range(count)), []
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {server.token}"}, timeout=timeout) as http:
        before = await states(http, server.url)

        async def submitter() -> None:
            for _ in left:
                began = time.monotonic()
                body = {"command": ["sleep", "100000"], "gpus": "1", "cpus": 1, "memory": "1GiB"}
                async with http.post(f"{server.url}/api/v1/sessions", json=body) as answer:
                    assert answer.status < 400, await answer.text()
                took_s.append(time.monotonic() - began)

        began = time.monotonic()
        await asyncio.gather(*(submitter() for _ in range(SUBMITTERS)))
        async with asyncio.timeout(PATIENCE_S):
            while (await states(http, server.url)).get("RUNNING", 0) < before.get("RUNNING", 0) + count:
                await asyncio.sleep(LOOK_S)
        return time.monotonic() - began, took_s


async def states(http: aiohttp.ClientSession, url: str) -> dict[str, int]:
    """How many sessions there are in each state, as the server counts them for Prometheus."""
    found: dict[str, int] = {}
    async with http.get(f"{url}/metrics") as answer:
        for line in (await answer.text()).splitlines():
            if line.startswith("fairy_sessions{"):
                labels, _, number = line.rpartition(" ")
                state = labels.partition('phase="')[2].partition('"')[0]
                found[state.upper()] = found.get(state.upper(), 0) + int(float(number))
    return found


async def bare_pods(cluster: Cluster, count: int) -> float:
    """Seconds from the first creation until kwok has said of all that they run. Nothing of ours is in the way but the client."""
    async with KubeApi(load_access(cluster.kubeconfig, None, {})) as api:
        running: set[str] = set()

        def heard(_: object, new: tuple[str, bool] | None) -> None:
            if new is not None and new[1]:
                running.add(new[0])

        path = f"/api/v1/namespaces/{BARE}/pods"
        watched = Watched(api, path, slim=lambda one: (one["metadata"]["name"], one["status"].get("phase") == "Running"), on_change=heard)
        watching = asyncio.create_task(watched.run())
        await watched.ready.wait()
        numbers, began = iter(range(count)), time.monotonic()

        async def maker() -> None:
            for number in numbers:
                await api.create(path, bare_pod(number))

        await asyncio.gather(*(maker() for _ in range(AT_ONCE)))
        async with asyncio.timeout(PATIENCE_S):
            while len(running) < count:
                await asyncio.sleep(0.05)
        took_s = time.monotonic() - began
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return took_s


def bare_pod(number: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "registry.example.org/torch:1", "command": ["sleep", "100000"], "resources": {"limits": limits}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"bare-{number}"}, "spec": spec}


def pods_by_phase(cluster: Cluster) -> dict[str, int]:
    """Read past the server."""
    found: dict[str, int] = {}
    for one in cluster.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?resourceVersion=0")["items"]:
        phase = one["status"].get("phase", "")
        found[phase] = found.get(phase, 0) + 1
    return found


def used(pid: int) -> tuple[float, float]:
    """Seconds of CPU, and MiB of memory."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(words[11]) + int(words[12])) / 100, pages * 4096 / 2**20


def part_used(cluster: Cluster, name: str) -> tuple[float, float]:
    return used(int((cluster.folder / f"{name}.pid").read_text()))
