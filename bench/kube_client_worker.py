"""One measurement of the Kubernetes client in a process of its own, run by kube_client.py: prints JSON with seconds of CPU and MiB."""
import asyncio
import json
import os
import resource
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.exec import exec_stream
from gpufairy.engines.kube.watch import Watched

PODS = "/api/v1/namespaces/default/pods"
MIB = 2**20
KEYS = 300


@dataclass(frozen=True, slots=True)
class Slim:
    """About what an engine keeps of a pod."""

    name: str
    uid: str
    node: str
    phase: str
    labels: tuple[tuple[str, str], ...]


def main() -> None:
    kubeconfig, what, *words = sys.argv[1:]
    work = {"make": make, "list": listed, "watch": watched, "exec": executed}[what]
    print(json.dumps(asyncio.run(run(Path(kubeconfig), work, words))))


async def run(kubeconfig: Path, work: Any, words: list[str]) -> dict[str, float]:
    async with KubeApi(load_access(kubeconfig, None, {})) as api:
        await api.version()
        before, cpu_s, began = resident_mib(), time.process_time(), time.perf_counter()
        told = await work(api, *words)
        wall_s = time.perf_counter() - began
        return {"wall_s": wall_s, "cpu_s": time.process_time() - cpu_s, "held_mib": resident_mib() - before, "peak_mib": peak_mib(), **told}


async def make(api: KubeApi, first: str, count: str) -> dict[str, float]:
    """Fifty at once."""
    numbers = iter(range(int(first), int(first) + int(count)))

    async def one_after_the_other() -> None:
        for number in numbers:
            await api.create(PODS, a_pod(number))

    await asyncio.gather(*(one_after_the_other() for _ in range(50)))
    return {}


def a_pod(number: int) -> dict[str, Any]:
    """As large as ours are; no scheduler touches it."""
    env = [{"name": f"VARIABLE_{one}", "value": "x" * 60} for one in range(20)]
    mounts = [{"name": f"volume-{one}", "mountPath": f"/mnt/{one}"} for one in range(5)]
    container = {
        "name": "main", "image": "registry.lab.test/pytorch:2.7", "command": ["python", "train.py"], "env": env, "volumeMounts": mounts,
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}},
    }  # fmt: skip
    labels = {f"gpufairy.label-{one}": f"value-{number}-{one}" for one in range(10)}
    metadata = {"name": f"pod-{number:05}", "labels": labels, "annotations": {"gpufairy.request": "y" * 1000}}
    volumes = [{"name": f"volume-{one}", "emptyDir": {}} for one in range(5)]
    spec = {"containers": [container], "schedulingGates": [{"name": "bench/held"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def listed(api: KubeApi, count: str) -> dict[str, float]:
    kept = [slim(one) async for one in api.list(PODS)]
    assert len(kept) == int(count), len(kept)
    return {"held_mib_now": resident_mib()}


async def watched(api: KubeApi, count: str) -> dict[str, float]:
    watch = Watched(api, PODS, slim=slim)
    running = asyncio.create_task(watch.run())
    await watch.ready.wait()
    assert len(watch.items) == int(count), len(watch.items)
    rss = resident_mib()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return {"rss_mib": rss}


def slim(one: dict[str, Any]) -> Slim:
    about, spec, status = one["metadata"], one["spec"], one["status"]
    return Slim(about["name"], about["uid"], spec.get("nodeName", ""), status.get("phase", ""), tuple(about["labels"].items()))


async def executed(api: KubeApi, pod: str, mebibytes: str) -> dict[str, float]:
    size = int(mebibytes) * MIB
    down_s = await down(api, pod, size)
    up_s = await up(api, pod, size)
    return {"down_mib_s": size / MIB / down_s, "up_mib_s": size / MIB / up_s, "echo_ms": 1000 * statistics.median(await echoes_s(api, pod))}


async def down(api: KubeApi, pod: str, size: int) -> float:
    stream = await exec_stream(api, "default", pod, "main", ["head", "-c", str(size), "/dev/zero"], terminal=False)
    await asyncio.to_thread(os.read, stream.stdout, 1)
    began = time.perf_counter()
    assert await asyncio.to_thread(read_all, stream.stdout) == size - 1
    took = time.perf_counter() - began
    await stream.close()
    return took


def read_all(descriptor: int) -> int:
    size = 0
    while chunk := os.read(descriptor, MIB):
        size += len(chunk)
    return size


async def up(api: KubeApi, pod: str, size: int) -> float:
    stream = await exec_stream(api, "default", pod, "main", ["sh", "-c", "head -c 1; wc -c"], terminal=False)
    os.write(stream.stdin, b"x")
    await asyncio.to_thread(os.read, stream.stdout, 1)
    began = time.perf_counter()
    await asyncio.to_thread(write_all, stream.stdin, size)
    os.close(stream.stdin)
    stream.stdin = -1
    assert int(await asyncio.to_thread(os.read, stream.stdout, 100)) == size
    took = time.perf_counter() - began
    await stream.close()
    return took


def write_all(descriptor: int, size: int) -> None:
    chunk = bytes(MIB)
    while size > 0:
        size -= os.write(descriptor, chunk[: min(size, MIB)])


async def echoes_s(api: KubeApi, pod: str) -> list[float]:
    """A key in a terminal until its letter is back."""
    stream = await exec_stream(api, "default", pod, "main", ["cat"], terminal=True)
    found = []

    def type_keys() -> None:
        for _ in range(KEYS):
            began = time.perf_counter()
            os.write(stream.stdin, b"x")
            os.read(stream.stdout, 1)
            found.append(time.perf_counter() - began)

    await asyncio.to_thread(type_keys)
    await stream.close()
    return found


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


main()
