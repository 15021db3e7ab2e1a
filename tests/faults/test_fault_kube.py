"""Kubernetes' API server hung and killed, a pod deleted by hand, a node emptied and a node lost, under the server as it is shipped: right 30 s
after it is back, and never a second pod. Nodes are pretended by kwok; the API server, scheduler and controllers are real."""
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from bench.kube_crowd import KIND, NAMESPACE, server_of
from lengths import length_s

from kube.cluster import Cluster
from kube.pretended import pretended_nodes
from kube.processes import run
from kube.start import control_plane
from waits import until, wait_for_state

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]

AWAY_S = length_s(short=10, full=600)
RIGHT_AFTER_S = 30
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ASKED = {"gpus": "1", "cpus": 1, "memory": "1GiB", "command": ["sleep", "3600"]}


@pytest.fixture(scope="module")
def here():
    with control_plane() as cluster, pretended_nodes(cluster, 2, gpus=4, labels=KIND, taints=()), server_of(cluster) as server, server.client() as client:
        yield cluster, client


def pods(cluster: Cluster) -> dict[str, str]:
    """Those that live, by session, as the API server has them. Two of one session are a fault."""
    found = [one for one in cluster.ask("GET", PODS)["items"] if one["status"].get("phase") in ("Pending", "Running")]
    counted = Counter(one["metadata"]["labels"]["gpufairy.io/session"] for one in found)
    assert set(counted.values()) <= {1}, f"two pods of one session: {counted}"
    return {one["metadata"]["labels"]["gpufairy.io/session"]: one["metadata"]["uid"] for one in found}


def api_server(cluster: Cluster) -> int:
    return int((cluster.folder / "kube-apiserver.pid").read_text())


def run_and_wait(client, name: str) -> dict:
    client.submit({**ASKED, "name": name})
    return wait_for_state(client, name, "RUNNING", limit_s=60)


@pytest.mark.parametrize("how", ["hung", "killed"])
def test_an_api_server_that_is_away_costs_nobody_anything(here, how):
    cluster, client = here
    running = run_and_wait(client, f"runs-{how}")
    before, pid = pods(cluster), api_server(cluster)
    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    os.kill(pid, signal.SIGSTOP if how == "hung" else signal.SIGKILL)
    try:
        asked = client.submit({**ASKED, "name": f"asked-{how}"})  # the server itself answers all the while
        began = time.monotonic()
        while time.monotonic() - began < AWAY_S:
            assert client.session(f"runs-{how}")["state"] in ("RUNNING", "LOST")
            assert client.session(f"asked-{how}")["state"] in ("PENDING", "STARTING")
            time.sleep(0.5)
    finally:
        if how == "hung":
            os.kill(pid, signal.SIGCONT)
        else:
            run(cluster.folder, Path(command[0]), *command[1:])
    until(lambda: answers(cluster), "the API server", 60)
    assert wait_for_state(client, f"runs-{how}", "RUNNING", limit_s=RIGHT_AFTER_S)["attempt"] == 1
    assert wait_for_state(client, f"asked-{how}", "RUNNING", limit_s=RIGHT_AFTER_S)["id"] == asked["id"]
    after = pods(cluster)
    assert after[running["id"]] == before[running["id"]], "another pod in its place"
    for name in (f"runs-{how}", f"asked-{how}"):
        client.stop(name)
        wait_for_state(client, name, "ENDED", limit_s=60)


def answers(cluster: Cluster) -> bool:
    try:
        return cluster.answer("GET", "/readyz")[0] == 200
    except OSError:
        return False


def test_a_pod_deleted_by_hand_ends_its_session_in_words_and_is_not_started_again(here):
    cluster, client = here
    session = run_and_wait(client, "deleted")
    [pod] = [one for one in cluster.ask("GET", PODS)["items"] if one["metadata"]["labels"]["gpufairy.io/session"] == session["id"]]
    cluster.ask("DELETE", f"{PODS}/{pod['metadata']['name']}")
    ended = wait_for_state(client, "deleted", "ENDED", limit_s=RIGHT_AFTER_S)
    assert ended["outcome"] != "done"
    assert ended["why"]
    assert session["id"] not in pods(cluster)


def test_an_emptied_node_gives_its_session_back_and_one_that_may_be_tried_again_runs_elsewhere(here):
    cluster, client = here
    client.submit({**ASKED, "name": "moves", "retry": 3})
    seat = wait_for_state(client, "moves", "RUNNING", limit_s=60)["seat"]["node"]
    node = cluster.ask("GET", f"/api/v1/nodes/{seat}")
    node["spec"]["unschedulable"] = True
    cluster.ask("PUT", f"/api/v1/nodes/{seat}", node)
    try:
        # Else it may be seated there once more: who empties a node waits for that too.
        until(lambda: next(one for one in client.nodes() if one["name"] == seat)["state"] != "ready", "the server to hear of it")
        session = client.session("moves")
        [pod] = [one for one in cluster.ask("GET", PODS)["items"] if one["metadata"]["labels"]["gpufairy.io/session"] == session["id"]]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"], "namespace": NAMESPACE}}
        cluster.ask("POST", f"{PODS}/{pod['metadata']['name']}/eviction", eviction)
        moved = until(lambda: (s := client.session("moves"))["state"] == "RUNNING" and s["attempt"] == 2 and s, "it to run elsewhere", 60)
        assert moved["seat"]["node"] != seat
        assert len(pods(cluster)) == 1
    finally:
        node = cluster.ask("GET", f"/api/v1/nodes/{seat}")
        node["spec"].pop("unschedulable", None)
        cluster.ask("PUT", f"/api/v1/nodes/{seat}", node)
        client.stop("moves")
        wait_for_state(client, "moves", "ENDED", limit_s=60)
