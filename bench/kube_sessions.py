"""Sessions on Kubernetes: submit to Running on pretended nodes beside kube-scheduler's own pace, and a start on a real kubelet
beside a bare pod's."""
import asyncio
import http.client
import json
import shutil
import ssl
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench.figures import Figure, Report, percentile
from bench.kube_client import shared
from bench.kube_crowd import BARE, KIND, bare_pods, pods_by_phase, server_of, submit_all, used
from bench.server import LiveServer
from bench.start import session_start
from images import BUSYBOX_IMAGE
from kube import start
from kube.cluster import Cluster
from kube.own_image import own_image
from kube.pretended import pretended_nodes
from kube.tools import TOOLS_IMAGE

SESSIONS, NODES, GPUS = 1_500, 400, 8
ROUNDS = 20
GOAL_PACE, GOAL_TIMES = 30.0, 1.2


def measure() -> Report:
    return Report("kube_sessions", [*pace_figures(), *start_figures()])


def pace_figures() -> list[Figure]:
    with start.control_plane() as alone, pretended_nodes(alone, NODES, gpus=GPUS, labels=KIND, taints=()):
        alone.namespace(BARE)
        bare_s = asyncio.run(bare_pods(alone, SESSIONS))
        with server_of(alone) as server:
            cpu_s, _ = used(server.pid)
            ours_s, submits = asyncio.run(submit_all(server, SESSIONS))
            cpu_after_s, mib = used(server.pid)
        phases = pods_by_phase(alone)
    assert phases == {"Running": SESSIONS}, phases
    peer = {"peer": "bare pods, our client alone", "peer_value": SESSIONS / bare_s}
    return [
        Figure(f"{SESSIONS} sessions of a GPU on {NODES} nodes, submit to RUNNING", SESSIONS / ours_s, "/s", GOAL_PACE, **peer),
        Figure(
            "CPU of the server for a session", 1000 * (cpu_after_s - cpu_s) / SESSIONS, "ms",
            higher_is_better=False, note=f"{mib:.0f} MiB then",
        ),
        Figure("submits meanwhile, p99", 1000 * percentile(submits, 0.99), "ms", higher_is_better=False),
    ]  # fmt: skip


SETTINGS = """
[images]
default = "docker.io/{image}"
[kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
tools_image = "{tools}"
nodes = "kubernetes.io/hostname={node}"
homes.access = "none"
"""


def start_figures() -> list[Figure]:
    folder, namespace = Path(tempfile.mkdtemp(prefix="fairy-bench-")), f"bench-{time.time_ns() % 10**9}"
    ours: list[float] = []
    theirs: list[float] = []
    try:
        with shared() as cluster:
            own_image(cluster, "tools", TOOLS_IMAGE.removeprefix("docker.io/"))
            cluster.namespace(namespace)
            settings = SETTINGS.format(
                image=BUSYBOX_IMAGE, kubeconfig=cluster.kubeconfig, namespace=namespace, tools=TOOLS_IMAGE, node=cluster.node
            )
            with LiveServer(folder / "fairy", settings, engine="kubernetes") as server, server.client() as fairy:
                session_start(fairy, 0)
                kubectl_run(cluster, namespace, 0)
                for number in range(1, ROUNDS + 1):
                    ours.append(session_start(fairy, number))
                    theirs.append(kubectl_run(cluster, namespace, number))
            cluster.answer("DELETE", f"/api/v1/namespaces/{namespace}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    median = statistics.median(ours), statistics.median(theirs)
    beside = {"peer": "kubectl run", "peer_value": 1000 * median[1]}
    return [
        Figure(f"submit to RUNNING on a real kubelet, median of {ROUNDS}", 1000 * median[0], "ms", higher_is_better=False, **beside),
        Figure("times bare kubectl run", median[0] / median[1], "x", GOAL_TIMES, higher_is_better=False),
    ]


def kubectl_run(cluster: Cluster, namespace: str, number: int) -> float:
    """Until a watch says that it runs."""
    name = f"bare-{number}"
    running = threading.Event()
    watching = threading.Thread(target=watch, args=(cluster, namespace, name, running), daemon=True)
    watching.start()
    options = [f"--image=docker.io/{BUSYBOX_IMAGE}", "--image-pull-policy=Never", "--restart=Never", f"--namespace={namespace}"]
    program = start.programs_of("kubectl")["kubectl"]
    began = time.monotonic()
    command = [str(program), f"--kubeconfig={cluster.kubeconfig}", "run", name, *options, "--command", "--", "sleep", "1000"]
    subprocess.run(command, check=True, capture_output=True)
    assert running.wait(60)
    took_s = time.monotonic() - began
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    cluster.ask("DELETE", f"{path}?gracePeriodSeconds=1")
    while cluster.answer("GET", path)[0] != 404:
        time.sleep(0.02)
    watching.join()
    return took_s


def watch(cluster: Cluster, namespace: str, name: str, running: threading.Event) -> None:
    trusted = ssl.create_default_context(cafile=str(cluster.authority))
    connection = http.client.HTTPSConnection(cluster.address, cluster.port, timeout=90, context=trusted)
    query = f"watch=1&fieldSelector=metadata.name%3D{name}"
    connection.request("GET", f"/api/v1/namespaces/{namespace}/pods?{query}", headers={"Authorization": f"Bearer {cluster.token}"})
    answer = connection.getresponse()
    while line := answer.readline():
        states = json.loads(line)["object"].get("status", {}).get("containerStatuses") or [{}]
        if "running" in (states[0].get("state") or {}):
            running.set()
            break
    connection.close()
