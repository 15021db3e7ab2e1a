"""Names of pods on the page of the real `fairy exporter`: real pods on a real kubelet, told by a real API server; the GPU is pretended."""
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fake_nvml import FakeGpu, FakeMachine, FakeNvml, FakeProcess
from gpufairy.core.errors import FairyError
from gpufairy.main.pods import pods_of
from gpufairy.node.kube_access import by_kubeconfig, in_cluster
from gpufairy.node.kube_pods import listed_pods
from gpufairy.node.pod_resources import Holder, listed_holders
from journeys.collector_scene import ServedCollector, labels_of
from kube.cluster import Cluster, sleeping
from kube.node import DEVICE_PLUGINS
from kube.relay import relay
from waits import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
NAMED_S = 30.0
ML, SESSIONS = (f"{name}-{os.getpid()}" for name in ("ml", "sessions"))  # the cluster is shared with other test processes
GPU = FakeMachine((FakeGpu(),)).named().gpus[0].uuid
SESSION = {"gpufairy.role": "session", "gpufairy.server": "s1", "gpufairy.session": "id1", "gpufairy.owner": "kim", "gpufairy.name": "brave-otter"}


class Watch:
    """The exporter on this node, and who is on its GPU."""

    def __init__(self, folder: Path, *options: str, env: dict[str, str]) -> None:
        self._driver = FakeNvml(folder)
        self.put()
        self.exporter = ServedCollector(folder / "exporter", "--every", "0.2s", *options, fake=self._driver, env=env)

    def put(self, *pids: int) -> None:
        self._driver.write(FakeMachine((FakeGpu(processes=tuple(FakeProcess(pid, 1024, 85, 60) for pid in pids)),)))

    def place(self, pid: int) -> tuple[str, str, str] | None:
        """Namespace, pod and container of that process, as the page has them."""
        rows = (labels_of(text) for text in self.exporter.rows("gpu_process_info"))
        return next(((row["namespace"], row["pod"], row["container"]) for row in rows if row["pid"] == str(pid)), None)

    def sees(self, pid: int, *place: str) -> None:
        until(lambda: self.place(pid) == place, f"{pid} in {place}; it is in {self.place(pid)}\n{self.exporter.log[-2000:]}", NAMED_S)

    def owner(self, pid: int) -> tuple[str, str]:
        """User and session."""
        rows = (labels_of(text) for text in self.exporter.rows("fairy_process_gpu_memory_bytes"))
        return next(((row["user"], row["session"]) for row in rows if row["pid"] == str(pid)), ("", ""))

    def looks(self, times: int) -> None:
        """So many times, from now on."""
        seen: set[float] = set()

        def enough() -> bool:
            seen.update(self.exporter.rows("fairy_sample_timestamp_seconds").values())
            return len(seen) > times

        until(enough, f"{times} looks", NAMED_S)

    def told(self) -> float | None:
        return self.exporter.rows("fairy_collector_success").get('collector="pods"')

    def says(self, *words: str) -> None:
        until(lambda: all(word in self.exporter.log for word in words), f"{words} in its log:\n{self.exporter.log[-2000:]}", NAMED_S)


Watching = Callable[..., Watch]


@pytest.fixture
def watching(tmp_path: Path, cluster: Cluster) -> Iterator[Watching]:
    with ExitStack() as undo:

        def start(kubeconfig: Path | None = None, *options: str, node: str = cluster.node) -> Watch:
            named = {} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)}
            watch = Watch(tmp_path, *options, env={"NODE_NAME": node, "KUBECONFIG": "", **named})
            undo.enter_context(watch.exporter)
            return watch

        yield start


@pytest.fixture(scope="module")
def train(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """A pod with two containers, and one that was started before them and stays."""
    cluster.namespace(ML)
    helper = sleeping("helper", restartPolicy="Always")
    containers = [sleeping("main"), sleeping("side")]
    with cluster.pod("train-0", ML, labels={"owner": "kim"}, containers=containers, initContainers=[helper]) as pod:
        yield pod


@pytest.mark.parametrize("kubeconfig", ["admin.json", "kubelet.json"], ids=["by token", "by the kubelet's certificate"])
def test_processes_of_a_pod_have_its_name_and_their_containers(cluster, train, watching, kubeconfig):
    pids = {name: cluster.pid(train, name) for name in ("main", "side", "helper")}
    watch = watching(cluster.folder / kubeconfig)
    watch.put(*pids.values())
    for name, pid in pids.items():
        watch.sees(pid, ML, "train-0", name)
        assert watch.owner(pid) == ("kim", "")
    assert watch.told() == 1


def test_a_container_that_is_put_into_a_running_pod_is_named(cluster, train, watching):
    path = f"/api/v1/namespaces/{ML}/pods/train-0"
    pod = cluster.ask("GET", path)
    pod["spec"]["ephemeralContainers"] = [sleeping("debug")]
    cluster.ask("PUT", f"{path}/ephemeralcontainers", pod)
    until(lambda: "running" in cluster.ask("GET", path)["status"].get("ephemeralContainerStatuses", [{"state": {}}])[0]["state"], "it to run", NAMED_S)
    pid = cluster.pid(cluster.ask("GET", path), "debug")
    watch = watching(cluster.kubeconfig)
    watch.put(pid)
    watch.sees(pid, ML, "train-0", "debug")


def test_a_static_pod_has_the_name_under_which_the_cluster_shows_it(cluster, watching):
    manifest = cluster.static_pods / f"{ML}.json"
    manifest.write_text(json.dumps(cluster.a_pod(ML)))
    path = f"/api/v1/namespaces/default/pods/{ML}-{cluster.node}"
    try:
        until(lambda: cluster.answer("GET", path)[0] == 200 and cluster.is_running(path), "the static pod to be shown", NAMED_S)
        pod = cluster.ask("GET", path)
        pid = cluster.pid(pod, "main")
        assert pod["metadata"]["uid"] not in Path(f"/proc/{pid}/cgroup").read_text()
        watch = watching(cluster.kubeconfig)
        watch.put(pid)
        watch.sees(pid, "default", f"{ML}-{cluster.node}", "main")
    finally:
        manifest.unlink()
        until(lambda: cluster.answer("GET", path)[0] == 404, "the static pod to go", NAMED_S)


def test_a_pod_started_while_we_watch_and_one_of_the_same_name_after_it_are_named(cluster, watching):
    watch = watching(cluster.kubeconfig)
    pids = []
    for _ in range(2):
        with cluster.pod("again", ML) as pod:
            pids.append(cluster.pid(pod, "main"))
            watch.put(pids[-1])
            watch.sees(pids[-1], ML, "again", "main")
    assert pids[0] != pids[1]


def test_without_the_api_server_known_names_stay_new_ones_are_empty_and_the_gauge_says_so_until_it_is_back(cluster, train, watching, tmp_path):
    known = cluster.pid(train, "main")
    with relay(cluster.port) as way, cluster.pod("late", ML) as late:
        kubeconfig = tmp_path / "config.json"
        told = json.loads(cluster.kubeconfig.read_text())
        told["clusters"][0]["cluster"] = {"server": f"https://127.0.0.1:{way.port}", "certificate-authority": str(cluster.authority)}
        kubeconfig.write_text(json.dumps(told))
        watch = watching(kubeconfig)
        watch.put(known, cluster.pid(late, "main"))
        watch.sees(known, ML, "train-0", "main")
        way.cut()
        with cluster.pod("new", ML) as new:
            pid = cluster.pid(new, "main")
            watch.put(known, pid)
            until(lambda: watch.told() == 0, "the gauge", NAMED_S)
            assert (watch.place(known), watch.place(pid)) == ((ML, "train-0", "main"), ("", "", ""))
            watch.says(f"127.0.0.1:{way.port} gave no answer", "refused")
            way.mend()
            watch.sees(pid, ML, "new", "main")
            assert watch.told() == 1


def test_a_token_that_the_cluster_does_not_know_is_told_in_words(cluster, train, watching, tmp_path):
    told = json.loads(cluster.kubeconfig.read_text())
    told["users"][0]["user"]["token"] = "wrong"
    told["clusters"][0]["cluster"]["certificate-authority"] = str(cluster.authority)
    (tmp_path / "config.json").write_text(json.dumps(told))
    watch = watching(tmp_path / "config.json")
    pid = cluster.pid(train, "main")
    watch.put(pid)
    watch.says("does not know us by kubeconfig", "(401)", "not expired?")
    assert (watch.told(), watch.place(pid)) == (0, ("", "", ""))


def test_a_server_whose_certificate_is_anothers_is_not_trusted(cluster, tmp_path):
    told = json.loads(cluster.kubeconfig.read_text())
    told["clusters"][0]["cluster"]["certificate-authority"] = str(cluster.folder / "kube-controller-manager.crt")
    (tmp_path / "config.json").write_text(json.dumps(told))
    with pytest.raises(FairyError, match=r"shows a certificate that .* does not trust"):
        listed_pods(by_kubeconfig(tmp_path / "config.json"), cluster.node)


def test_a_wrong_name_of_the_node_is_told_in_words(cluster, train, watching):
    watch = watching(cluster.kubeconfig, node="another")
    watch.put(cluster.pid(train, "main"))
    watch.says("no pods on a node 'another'", "Set NODE_NAME")
    assert watch.told() == 0


def test_a_service_account_needs_the_right_to_list_pods_and_no_more(cluster, train, tmp_path):
    cluster.put(f"/api/v1/namespaces/{ML}/serviceaccounts", {"metadata": {"name": "watcher"}})
    made = cluster.ask("POST", f"/api/v1/namespaces/{ML}/serviceaccounts/watcher/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    (tmp_path / "token").write_text(made["status"]["token"])
    (tmp_path / "ca.crt").write_bytes(cluster.authority.read_bytes())
    env = {"KUBERNETES_SERVICE_HOST": cluster.address, "KUBERNETES_SERVICE_PORT": str(cluster.port)}
    with pytest.raises(FairyError, match=r"does not let us list pods of node .*\(403\)"):
        pods_of(lambda: in_cluster(env, tmp_path), cluster.node)
    rights = "/apis/rbac.authorization.k8s.io/v1"
    cluster.put(f"{rights}/clusterroles", {"metadata": {"name": "watcher"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]})
    bound = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "watcher"}, "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": ML}]}
    cluster.put(f"{rights}/clusterrolebindings", {"metadata": {"name": ML}, **bound})
    uid, container_id = train["metadata"]["uid"], train["status"]["containerStatuses"][0]["containerID"].partition("://")[2]

    def found() -> Any:
        try:
            return pods_of(lambda: in_cluster(env, tmp_path), cluster.node).find(uid, container_id)
        except FairyError:
            return None

    assert until(found, "the right to be known", NAMED_S).name == "train-0"


def test_our_labels_make_a_session_in_the_namespace_of_sessions_alone(cluster, watching):
    cluster.namespace(SESSIONS)
    with cluster.pod("fairy-kim-brave-otter", SESSIONS, labels=SESSION) as ours, cluster.pod("forged", ML, labels={**SESSION, "owner": "mallory"}) as forged:
        pids = [cluster.pid(pod, "main") for pod in (ours, forged)]
        watch = watching(cluster.kubeconfig, "--session-namespace", SESSIONS)
        watch.put(*pids)
        watch.sees(pids[0], SESSIONS, "fairy-kim-brave-otter", "main")
        watch.sees(pids[1], ML, "forged", "main")
        assert [watch.owner(pid) for pid in pids] == [("kim", "brave-otter"), ("mallory", "")]


@contextmanager
def device_plugin(cluster: Cluster, *ids: str) -> Iterator[None]:
    """Offers them to the kubelet as nvidia.com/gpu."""
    command = [sys.executable, Path(__file__).with_name("device_plugin.py"), DEVICE_PLUGINS, "nvidia.com/gpu", *ids]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as plugin:
        try:
            until(lambda: gpus_of_node(cluster) == len(ids), "the GPUs of the node", NAMED_S)
            yield
        finally:
            plugin.terminate()
    until(lambda: gpus_of_node(cluster) == 0, "the node to have none", NAMED_S)


def gpus_of_node(cluster: Cluster) -> int:
    return int(cluster.ask("GET", f"/api/v1/nodes/{cluster.node}")["status"]["allocatable"].get("nvidia.com/gpu", 0))


def test_without_a_way_to_the_api_server_a_pod_is_known_by_the_gpu_that_it_was_given(cluster, train, watching):
    holding = sleeping("torch", resources={"limits": {"nvidia.com/gpu": "1"}})
    with device_plugin(cluster, GPU), cluster.pod("held", ML, containers=[sleeping("other"), holding]) as pod:
        assert listed_holders(cluster.pod_resources_socket) == {GPU: {Holder("held", ML, "torch")}}
        pid, stranger = cluster.pid(pod, "torch"), cluster.pid(train, "main")
        watch = watching(None, "--kubelet", str(cluster.kubelet))
        watch.put(pid, stranger)
        until(lambda: watch.place(stranger) is not None, "both to be seen")
        watch.looks(10)
        assert (watch.place(pid), watch.place(stranger), watch.told()) == (("", "", ""), ("", "", ""), 1), "either of the two may be the one"
        watch.put(pid)
        watch.sees(pid, ML, "held", "torch")


def test_what_is_switched_off_asks_nobody(cluster, train, watching):
    watch = watching(cluster.kubeconfig, "--kubernetes", "off")
    pid = cluster.pid(train, "main")
    watch.put(pid)
    until(lambda: watch.place(pid) is not None, "it to be seen")
    assert (watch.place(pid), watch.told()) == (("", "", ""), None)
