"""The Kubernetes client on a real API server and kubelet: lists, a watch of 10,000 pods, creations, and bytes of commands in pods."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, Report
from kube import start
from kube.cluster import Cluster, sleeping

LISTED, WATCHED = 5_000, 10_000
MEBIBYTES = 200
GOAL_WATCH_MIB = 300.0
KUBECTL = shutil.which("kubectl")
ECHO_POD = f"bench-{os.getpid()}"


def measure() -> Report:
    theirs: tuple[float, float] | None
    with start.control_plane() as alone:
        made = worker(alone, "make", 0, LISTED)
        listed, theirs = worker(alone, "list", LISTED), kubectl_list(alone)
        worker(alone, "make", LISTED, WATCHED - LISTED)
        watched = worker(alone, "watch", WATCHED)
    with shared() as cluster, cluster.pod(ECHO_POD, containers=[sleeping("main")]):
        run, kubectl_mib_s = worker(cluster, "exec", ECHO_POD, MEBIBYTES), kubectl_down(cluster)
    lists = {"peer": "kubectl get -o name", "higher_is_better": False}
    return Report("kube_client", [
        Figure("pods made, 50 at once", LISTED / made["wall_s"], "pods/s", note="the API server is on the same cores"),
        Figure("CPU of ours for a pod that is made", 1000 * made["cpu_s"] / LISTED, "ms", higher_is_better=False),
        Figure(f"list {LISTED} pods: CPU", listed["cpu_s"], "s", **lists, peer_value=theirs and theirs[0]),
        Figure(f"list {LISTED} pods: most memory of the process", listed["peak_mib"], "MiB", **lists, peer_value=theirs and theirs[1]),
        Figure(f"a watch of {WATCHED} pods: memory of the process", watched["rss_mib"], "MiB", GOAL_WATCH_MIB, higher_is_better=False),
        Figure(f"a watch of {WATCHED} pods: the most while it begins", watched["peak_mib"], "MiB", GOAL_WATCH_MIB, higher_is_better=False),
        Figure(f"a watch of {WATCHED} pods until all are known", watched["wall_s"], "s", note=f"{watched['cpu_s']:.2g} s of CPU"),
        Figure("out of a command in a pod", run["down_mib_s"], "MiB/s", peer="kubectl exec", peer_value=kubectl_mib_s),
        Figure("into a command in a pod", run["up_mib_s"], "MiB/s"),
        Figure("a key in a terminal echoed, median", run["echo_ms"], "ms", higher_is_better=False),
    ])  # fmt: skip


@contextlib.contextmanager
def shared() -> Iterator[Cluster]:
    """The tests' own, with a real kubelet, when no test is on it."""
    found, alone = (contextlib.contextmanager(fixture.__wrapped__) for fixture in (start.shared_cluster, start.cluster))
    with found() as cluster, alone(cluster):
        yield cluster


def worker(cluster: Cluster, what: str, *words: object) -> dict[str, float]:
    command = [sys.executable, Path(__file__).with_name("kube_client_worker.py"), cluster.kubeconfig, what, *words]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


def kubectl(cluster: Cluster, *words: str) -> list[str]:
    return [str(KUBECTL), f"--kubeconfig={cluster.kubeconfig}", *words]


def kubectl_list(cluster: Cluster) -> tuple[float, float] | None:
    """Seconds of CPU, and MiB."""
    if KUBECTL is None:
        return None
    with subprocess.Popen(kubectl(cluster, "get", "pods", "-n", "default", "-o", "name"), stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def kubectl_down(cluster: Cluster) -> float | None:
    if KUBECTL is None:
        return None
    size = MEBIBYTES * 2**20
    command = kubectl(cluster, "exec", ECHO_POD, "--", "head", "-c", str(size), "/dev/zero")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        began = time.perf_counter()
        while process.stdout.read(2**20):
            pass
        return MEBIBYTES / (time.perf_counter() - began)
