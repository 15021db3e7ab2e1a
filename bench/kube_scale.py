"""What one server carries on Kubernetes: 5,000 pretended nodes with 40,000 GPUs and 10,000 sessions. Takes half an hour on two cores."""
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench.figures import Figure, Report, percentile
from bench.kube_crowd import KIND, NAMESPACE, part_used, pods_by_phase, server_of, submit_all, used
from bench.server import LiveServer
from kube import start
from kube.cluster import Cluster
from kube.pretended import pretended_nodes

NODES, GPUS, SESSIONS, STEP = 5_000, 8, 10_000, 2_000
PARTS = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok")
REST_S = 20.0
GOAL_MIB, GOAL_PLAN_S = 300.0, 1.0


def measure(nodes: int = NODES, sessions: int = SESSIONS, step: int = STEP) -> Report:
    with start.control_plane() as alone, pretended_nodes(alone, nodes, gpus=GPUS, labels=KIND, taints=()), server_of(alone) as server:
        empty = resting(server)
        paces = [pace(server, alone, min(step, sessions - done), done) for done in range(0, sessions, step)]
        full = resting(server)
        pages = [page_figure(server, path) for path in ("/api/v1/sessions?limit=50", "/api/v1/queue", "/api/v1/nodes")]
        phases = pods_by_phase(alone)
        server.kill()
        server.start()
        engine = engine_alone(alone)
    assert phases == {"Running": sessions}, phases
    return Report("kube_scale", [
        Figure(f"server at rest, {nodes:,} nodes and no session", empty[0], "cores", higher_is_better=False, note=f"{empty[1]:.0f} MiB"),
        *paces,
        Figure(f"server at rest with {sessions:,} sessions", full[0], "cores", higher_is_better=False, note=f"{full[1]:.0f} MiB"),
        *pages,
        Figure("killed and started again, until it serves", server.ready_s, "s", higher_is_better=False),
        *engine_figures(engine),
    ])  # fmt: skip


def resting(server: LiveServer) -> tuple[float, float]:
    """Cores, and MiB."""
    time.sleep(REST_S / 2)
    before, _ = used(server.pid)
    time.sleep(REST_S)
    after, mib = used(server.pid)
    return (after - before) / REST_S, mib


def pace(server: LiveServer, alone: Cluster, count: int, before: int) -> Figure:
    began = {name: part_used(alone, name)[0] for name in PARTS}
    cpu_s, _ = used(server.pid)
    took_s, submits = asyncio.run(submit_all(server, count))
    ours = (used(server.pid)[0] - cpu_s) / took_s
    theirs = ", ".join(f"{name.removeprefix('kube-')} {(part_used(alone, name)[0] - was) / took_s:.2f}" for name, was in began.items())
    note = f"cores: ours {ours:.2f}, {theirs}; submit p99 {1000 * percentile(submits, 0.99):.0f} ms"
    found = Figure(f"submit to RUNNING, session {before + 1:,} to {before + count:,}", count / took_s, "/s", note=note)
    print(found, file=sys.stderr, flush=True)  # the whole takes half an hour
    return found


def page_figure(server: LiveServer, path: str) -> Figure:
    request = urllib.request.Request(f"{server.url}{path}", headers={"Authorization": f"Bearer {server.token}"})
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=120) as answer:
        size = len(answer.read())
    return Figure(f"GET {path}", 1000 * (time.monotonic() - began), "ms", higher_is_better=False, note=f"{size / 1e6:.1f} MB")


def engine_alone(alone: Cluster) -> dict[str, Any]:
    """All the sessions adopted by another process."""
    (pod,) = alone.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?limit=1")["items"]
    server_id = pod["metadata"]["labels"]["gpufairy.io/server"]
    command = [sys.executable, Path(__file__).with_name("kube_engine_worker.py"), alone.kubeconfig, NAMESPACE, server_id]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


def engine_figures(found: dict[str, Any]) -> list[Figure]:
    less: dict[str, Any] = {"higher_is_better": False}
    what, bare = f"engine with {found['pods']:,.0f} pods and {found['nodes']:,.0f} nodes", f"{found['bare_mib']:.0f} MiB before it starts"
    planned_s = found["nodes_s"] + found["plan_s"]
    note = f"the first {found['first_nodes_s'] + found['first_plan_s']:.2f} s; {found['placed']} placed"
    return [
        Figure(f"{what}: memory of its process", found["held_mib"], "MiB", GOAL_MIB, **less, note=bare),
        Figure("the same, the most while it starts", found["peak_mib"], "MiB", GOAL_MIB, **less),
        Figure("its start, until all is known", found["start_s"], "s", **less),
        Figure("one look at all sessions, as converge has it: CPU", found["list_s"] + found["reconcile_s"], "s", **less),
        Figure(f"nodes() and plan() of {found['gpus']:,.0f} GPUs with 1,000 waiting: CPU", planned_s, "s", GOAL_PLAN_S, **less, note=note),
    ]
