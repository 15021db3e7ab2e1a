"""The Kubernetes of the tests does what tests of other things rely on: it places pods, pretends nodes, grows from zero, keeps rules and volumes."""
import os
import subprocess

import pytest

from images import BUSYBOX_IMAGE, Layer, image_tar
from kube.cluster import Cluster, sleeping
from kube.karpenter import GPU_TAINT, ROLE, karpenter, node_pool
from kube.pretended import TOLERATION, pretended_nodes
from kube.start import programs_of
from kube.volumes import volumes
from waits import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
OURS = f"cluster-{os.getpid()}"
GPU = sleeping("main", resources={"limits": {"nvidia.com/gpu": "1"}})


@pytest.fixture(scope="module", autouse=True)
def namespace(cluster: Cluster) -> None:
    cluster.namespace(OURS)


def test_the_scheduler_finds_a_pod_its_node_and_an_image_made_here_runs(cluster):
    cluster.import_image(image_tar("fairy-test/nothing:1", Layer()))
    with cluster.pod("placed", OURS, nodeName=None) as pod:
        assert pod["spec"]["nodeName"] == cluster.node
    listed = subprocess.run([*cluster.ctr_command, "images", "ls", "-q"], capture_output=True, text=True, check=True).stdout
    assert {"docker.io/fairy-test/nothing:1", f"docker.io/{BUSYBOX_IMAGE}"} <= set(listed.split())


def test_pretended_nodes_take_the_pods_that_tolerate_them_and_no_others(cluster):
    with pretended_nodes(cluster, 2, gpus=1, labels={"pool": OURS}) as names:
        made = [cluster.a_pod(f"gpu-{number}", GPU, nodeName=None, nodeSelector={"pool": OURS}, tolerations=[TOLERATION]) for number in range(3)]
        for pod in made:
            cluster.ask("POST", f"/api/v1/namespaces/{OURS}/pods", pod)
        until(lambda: sum(phase == "Running" for phase in phases(cluster).values()) == 2, f"two of three to run: {phases(cluster)}", 60)
        assert sorted(phases(cluster).values()) == ["Pending", "Running", "Running"]
        assert set(names) == {pod["spec"]["nodeName"] for pod in pods(cluster) if pod["status"]["phase"] == "Running"}
        cluster.ask("DELETE", f"/api/v1/namespaces/{OURS}/pods?gracePeriodSeconds=0")
        until(lambda: not pods(cluster), "them to go", 60)


def pods(cluster: Cluster) -> list[dict]:
    return cluster.ask("GET", f"/api/v1/namespaces/{OURS}/pods")["items"]


def phases(cluster: Cluster) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods(cluster)}


def test_a_claim_is_bound_to_a_folder_of_the_node_and_what_a_pod_writes_is_there(cluster):
    with volumes(cluster, 1) as kind:
        claims = f"/api/v1/namespaces/{OURS}/persistentvolumeclaims"
        cluster.put(claims, {"metadata": {"name": "home"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": kind, "resources": {"requests": {"storage": "1Gi"}}}})
        writer = {**sleeping("main", volumeMounts=[{"name": "home", "mountPath": "/home"}]), "command": ["sh", "-c", "echo hello > /home/word; exec sleep 1000"]}
        with cluster.pod("writer", OURS, nodeName=None, containers=[writer], volumes=[{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]):
            written = cluster.folder / "volumes" / f"{kind}-0" / "word"
            assert until(lambda: written.exists() and written.read_text(), "the word", 30) == "hello\n"
        cluster.ask("DELETE", f"{claims}/home")


def test_pod_security_and_roles_are_kept(cluster):
    strict = f"restricted-{os.getpid()}"
    cluster.put("/api/v1/namespaces", {"metadata": {"name": strict, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    cluster.namespace(strict)
    tried = lambda: cluster.answer("POST", f"/api/v1/namespaces/{strict}/pods", cluster.a_pod("loose"))  # noqa: E731
    # First of all a new namespace has to be known to whoever admits pods, and to have an account of its own.
    until(lambda: (seen := tried())[0] == 403 and "violates PodSecurity" in seen[1]["message"], lambda: f"the pod to be refused for its rights, not {tried()}")
    account = cluster.ask("POST", f"/api/v1/namespaces/{strict}/serviceaccounts/default/token", {"spec": {}})["status"]["token"]
    assert cluster.answer("GET", f"/api/v1/namespaces/{strict}/pods", token=account)[0] == 403


def test_a_pod_reaches_the_api_server_and_another_pod_by_their_services(cluster):
    serving = {**sleeping("main"), "command": ["sh", "-c", "mkdir /www; echo served > /www/index.html; exec httpd -f -p 8080 -h /www"]}
    asking = {**sleeping("main"), "command": ["sh", "-c", 'until wget -qO- http://$SHOP_SERVICE_HOST; do sleep 0.1; done; until wget --no-check-certificate -qO- https://$KUBERNETES_SERVICE_HOST/version; do sleep 0.1; done; exec sleep 1000']}
    cluster.put(f"/api/v1/namespaces/{OURS}/services", {"metadata": {"name": "shop"}, "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80, "targetPort": 8080}]}})
    with cluster.pod("shop", OURS, containers=[serving], labels={"app": "shop"}), cluster.pod("asking", OURS, containers=[asking]):
        log = until(lambda: (said := cluster.ask("GET", f"/api/v1/namespaces/{OURS}/pods/asking/log")) and "gitVersion" in str(said) and str(said), "both to answer", 30)
    assert "served" in log


def test_kubectl_and_helm_are_at_hand(cluster):
    programs, env = programs_of("kubectl", "helm"), {"KUBECONFIG": str(cluster.kubeconfig), "PATH": os.environ["PATH"], "HOME": str(cluster.folder)}
    asked = [[programs["kubectl"], "get", "nodes", "-o", "name"], [programs["helm"], "list", "-A"]]
    answers = [subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30).stdout for command in asked]
    assert f"node/{cluster.node}\n" in answers[0]
    assert answers[1].startswith("NAME")


def test_a_pool_grows_from_zero_for_a_pod_that_waits(lone_cluster):
    lone_cluster.namespace(OURS)
    path = f"/api/v1/namespaces/{OURS}/pods"
    with karpenter(lone_cluster), node_pool(lone_cluster):
        lone_cluster.ask("POST", path, lone_cluster.a_pod("train", GPU, nodeName=None, nodeSelector=ROLE, tolerations=[{**GPU_TAINT, "operator": "Exists"}]))
        until(lambda: lone_cluster.ask("GET", f"{path}/train")["status"]["phase"] == "Running", "a node to come", 90)
        labels = lone_cluster.ask("GET", "/api/v1/nodes")["items"][0]["metadata"]["labels"]
        assert (labels["role"], labels["node.kubernetes.io/instance-type"]) == ("train-gpu", "g5.xlarge")
