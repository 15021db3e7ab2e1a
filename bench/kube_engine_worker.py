"""The kubernetes engine in a process of its own, run by kube_scale.py: adopts what a server has started, tells of its nodes, and plans."""
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from gpufairy.core.cluster import Cluster, Policy
from gpufairy.core.floor import Floor
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plan import plan
from gpufairy.core.queue import Queue
from gpufairy.core.reconcile import reconcile
from gpufairy.core.session import Session
from gpufairy.engines.contract import Credentials
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kubernetes import KubernetesEngine
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.run_folder import Places

WAITING = 1_000
MIB = 2**20


def main() -> None:
    kubeconfig, namespace, server_id = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        print(json.dumps(asyncio.run(measured(kubeconfig, namespace, server_id, Path(folder)))))


async def measured(kubeconfig: str, namespace: str, server_id: str, folder: Path) -> dict[str, float]:
    settings = PodSettings(namespace=namespace, tools_image="registry.example.org/gpufairy-tools:1")
    engine = KubernetesEngine(
        KubeApi(load_access(Path(kubeconfig), None, {})), Places(folder), lambda _: Credentials("http://nobody", "none"),
        uid_of=lambda _: 20_001, settings=settings, server_id=server_id, kubeconfig=kubeconfig,
    )  # fmt: skip
    bare_mib, began = resident_mib(), time.perf_counter()
    await engine.start(lambda: None)
    found = {"start_s": time.perf_counter() - began}
    began = time.perf_counter()
    workloads = await engine.list_mine()
    found |= {"first_list_s": time.perf_counter() - began, "pods": len(workloads), "bare_mib": bare_mib}
    found |= {"held_mib": resident_mib(), "peak_mib": peak_mib()}
    found["list_s"] = await seconds_of(engine.list_mine)
    began = time.process_time()
    nodes = await engine.nodes()
    found |= {"first_nodes_s": time.process_time() - began, "nodes": len(nodes), "gpus": sum(len(node.gpus) for node in nodes)}
    found["nodes_s"] = await seconds_of(engine.nodes)
    sessions = [replace(one.session, phase=Phase.RUNNING, started_at=one.started_at) for one in workloads if one.session is not None]
    began = time.process_time()
    reconcile(sessions, workloads, sessions[0].since, Policy(), {})
    found["reconcile_s"] = time.process_time() - began
    found |= planned(tuple(nodes), sessions)
    await engine.close()
    return found


async def seconds_of(look: object) -> float:
    """CPU, of the second time."""
    assert callable(look)
    began = time.process_time()
    await look()
    return time.process_time() - began


def planned(nodes: tuple, holding: list[Session]) -> dict[str, float]:  # type: ignore[type-arg]
    """As in a server's first pass, and as in one of the many after it."""
    waiting = [
        replace(holding[n % len(holding)], id=f"new{n}", name=f"new-{n}", seat=None, phase=Phase.QUEUED, started_at=None, number=10**6 + n)
        for n in range(WAITING)
    ]
    cluster, floor = Cluster(nodes, tuple(holding), {holding[0].owner: Queue(waiting)}), Floor([one.request for one in holding])
    took = []
    for _ in range(3):
        began = time.process_time()
        made = plan(cluster, holding[0].since, floor)
        took.append(time.process_time() - began)
        floor.follow(cluster.nodes, cluster.holding)
    return {"first_plan_s": took[0], "plan_s": min(took[1:]), "placed": len(made.placed)}


def peak_mib() -> float:
    """Not getrusage's, which begins with what the process had in it that started this one."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / MIB


main()
