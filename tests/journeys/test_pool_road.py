"""A pool that sleeps at zero, on a real control plane with a real Karpenter: a job waits, a node comes, the job runs, the node goes."""
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.server import LiveServer

from daemons import server_id
from kube.cluster import Cluster, sleeping
from kube.karpenter import CLASSES, POOLS, ROLE, karpenter
from kube.start import control_plane
from waits import until, wait_for_state

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]

SETTINGS = """
[images]
default = "docker.io/library/busybox:1"
[server]
listen = "127.0.0.1"
[kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
homes.access = "none"
"""
ADD = ("pool", "add", "train-gpu", "--cloud", "karpenter", "--instance", "g5.xlarge", "--min", "0", "--max", "3", "--empty-after", "5s")
A_NODE_S = 60.0
GPU_POD = sleeping("main", resources={"limits": {"nvidia.com/gpu": "1"}})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with control_plane() as made, karpenter(made):
        made.put(CLASSES, {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
        yield made


@pytest.fixture(scope="module")
def live(cluster: Cluster) -> Iterator[LiveServer]:
    folder, namespace = Path(tempfile.mkdtemp(prefix="fairy-pool-")), f"fairy-{server_id()}"
    cluster.namespace(namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
    with LiveServer(folder, SETTINGS.format(kubeconfig=cluster.kubeconfig, namespace=namespace), engine="kubernetes") as started:
        started.namespace = namespace
        yield started
    shutil.rmtree(folder, ignore_errors=True)


def said(live: LiveServer, *words: str) -> Any:
    done = live.fairy(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nodes(cluster: Cluster) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.ask("GET", "/api/v1/nodes")["items"] if not one["metadata"].get("deletionTimestamp")]


def submit(live: LiveServer, name: str, **asked: Any) -> dict[str, Any]:
    return live.client().submit({"name": name, "gpus": "1", "command": ["sleep", "1000"], **asked})


def whys(live: LiveServer, name: str) -> tuple[dict[str, Any], list[str]]:
    """What its owner was told, until it ran."""
    client, told, began_s = live.client(), [], time.monotonic()
    session = client.session(name)
    while session["state"] != "RUNNING":
        assert session["state"] != "ENDED", session
        assert time.monotonic() - began_s < A_NODE_S, session
        told += [session["why"]] if session["why"] not in told else []
        session = client.wait(name, session["revision"], 5)
    return session, told


def test_what_would_be_made_is_told_first_with_its_price_and_nothing_is_made(live, cluster):
    done = live.fairy(*ADD, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "to make  Karpenter NodePool train-gpu: instance g5.xlarge, GPUs at most 3" in done.stdout
    assert "It costs $0.00 an hour at rest, and $3.02 an hour at most (AWS list price" in done.stdout
    assert cluster.ask("GET", POOLS)["items"] == []
    assert said(live, "pool", "list") == {"items": []}


def test_without_a_pool_nothing_holds_a_gpu_and_the_door_says_so(live):
    done = live.fairy("run", "--gpus", "1", "--detach", "--", "true")
    assert done.returncode == 3
    assert "no node has reported yet" in done.stderr


def test_a_pool_is_made_by_one_command_and_by_the_same_again_not_twice(live, cluster):
    first, again = said(live, *ADD), said(live, *ADD)
    assert (first["state"], again["state"], again["made_at"]) == ("ready", "ready", first["made_at"])
    assert all(step["there"] for step in again["steps"])
    made = cluster.ask("GET", f"{POOLS}/train-gpu")
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert (labels["role"], made["spec"]["limits"]["nvidia.com/gpu"]) == ("train-gpu", "3")
    assert [(one["state"], one["nodes"]) for one in said(live, "pool", "list")["items"]] == [("ready", 0)]


def test_a_job_waits_a_node_comes_the_job_runs_and_its_owner_was_told(live, cluster):
    submit(live, "train")
    session, told = whys(live, "train")
    assert "node is coming, about 3 min" in told, told
    assert (session["seat"]["node"], len(session["seat"]["gpus"])) == (nodes(cluster)[0], 1)
    events = [event["what"] for event in live.client().session_events("train")]
    assert events.index("launch_ordered") < events.index("arrived")
    pool = said(live, "pool", "show", "train-gpu")
    assert (pool["nodes"], pool["coming"], pool["boot_learnt"]) == (1, 0, True)
    assert pool["boot_s"] < 60


def test_who_waits_for_a_node_that_cannot_come_is_told_why_and_starts_when_it_can(live, cluster):
    ours = cluster.ask("GET", f"{POOLS}/train-gpu")
    ours["spec"]["limits"]["nvidia.com/gpu"] = "1"  # somebody's hand
    cluster.ask("PUT", f"{POOLS}/train-gpu", ours)
    submit(live, "stuck")
    told = until(lambda: (why := live.client().session("stuck")["why"]).startswith("pool train-gpu brings no node for it: ") and why, "the reason", A_NODE_S)
    assert "limits" in told
    assert not said(live, "pool", "show", "train-gpu")["steps"][0]["there"]
    assert said(live, *ADD)["state"] == "ready"
    wait_for_state(live.client(), "stuck", "RUNNING", limit_s=A_NODE_S)
    live.client().stop("stuck")


def test_a_plain_pod_with_the_label_gets_a_node_too_and_its_gpu_is_given_to_nobody_else(live, cluster):
    path = f"/api/v1/namespaces/{live.namespace}/pods"
    theirs = cluster.a_pod("theirs", GPU_POD, nodeName=None, nodeSelector=ROLE, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    cluster.namespace("plain")
    path = "/api/v1/namespaces/plain/pods"
    cluster.ask("POST", path, theirs)
    until(lambda: cluster.ask("GET", f"{path}/theirs")["status"]["phase"] == "Running", "the plain pod to run", A_NODE_S)
    its_node = cluster.ask("GET", f"{path}/theirs")["spec"]["nodeName"]
    submit(live, "beside")
    session, _ = whys(live, "beside")
    assert session["seat"]["node"] not in ("", its_node)
    assert said(live, "pool", "show", "train-gpu")["nodes"] == 3
    cluster.ask("DELETE", f"{path}/theirs?gracePeriodSeconds=0")


def test_a_full_pool_lets_the_next_wait_in_words(live, cluster):
    submit(live, "third")
    wait_for_state(live.client(), "third", "RUNNING", limit_s=A_NODE_S)  # in the place that the plain pod has left
    submit(live, "fourth")
    client, told = live.client(), []

    def is_told() -> bool:
        told.append(client.session("fourth")["why"])
        return "no room on 3 nodes" in told[-1]

    until(is_told, "it to be told")
    live.client().stop("fourth")


def test_a_server_that_was_killed_finds_all_of_it_again(live, cluster):
    before = live.client().session("train")["seat"]["node"]
    live.kill()
    for path in live.data.glob("fairy.db*"):
        path.unlink()
    live.start()
    client = live.client()
    found = until(lambda: next((one for one in client.sessions() if one["name"] == "train" and one["seat"]["node"] == before), None), "it to be adopted")
    assert found["state"] == "RUNNING"
    seats = [one["seat"]["node"] for one in client.sessions() if one["state"] == "RUNNING"]
    assert sorted(seats) == sorted(nodes(cluster))


def test_when_nobody_needs_them_the_nodes_go_and_then_the_pool(live, cluster):
    said(live, *ADD)  # the database is new; the pool in the cluster is ours by its label
    refused = live.fairy("pool", "remove", "train-gpu")
    assert refused.returncode == 3
    assert "are on nodes of pool train-gpu" in refused.stderr
    live.client().stop_all()
    until(lambda: not nodes(cluster), "the nodes to go", A_NODE_S)
    assert said(live, "pool", "remove", "train-gpu")["state"] == "removing"
    until(lambda: said(live, "pool", "list")["items"] == [], "the pool to go", 30)
    assert cluster.ask("GET", POOLS)["items"] == []
