"""The chart's agents on a real cluster: gpufairy's own image, made here, comes up by helm and tells whose the processes on the (pretended) GPU are."""
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kube.chart_scene import UP_S, Scene, fetched, places
from kube.cluster import Cluster
from kube.own_image import BUILDS, compiled_for_good, own_image
from waits import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
ML, MONITORING = (f"{name}-{os.getpid()}" for name in ("chart-ml", "monitoring"))


@pytest.fixture(scope="module")
def scene(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    for name in (ML, MONITORING):
        cluster.namespace(name)
    return Scene(cluster, own_image(cluster), tmp_path_factory.mktemp("chart"))


@contextmanager
def untouched(scene: Scene, namespace: str, name: str) -> Iterator[int]:
    """A pod that runs all the while; the number of its process."""
    with scene.cluster.pod(name, namespace) as pod:
        pid = scene.cluster.pid(pod, "main")
        yield pid
        now = scene.cluster.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        assert (now["metadata"]["uid"], scene.cluster.pid(now, "main")) == (pod["metadata"]["uid"], pid)
        assert now["status"]["containerStatuses"][0]["restartCount"] == 0


def test_the_guide_s_line_brings_the_agent_up_which_names_pod_namespace_and_container(scene):
    install = ["upgrade", "--install", "gpu-monitoring", ".", "--set", "gpu-session-monitoring.enabled=true", "--namespace", MONITORING]
    with untouched(scene, ML, "train-0") as pid:
        told = scene.admin.helm(*install, "--wait", "--timeout", "60s", values=scene.values())
        assert f"kubectl --namespace {MONITORING} get daemonset/gpu-monitoring-agent" in told
        scene.put(pid)
        page = f"http://{scene.address(MONITORING, 'agent')}:9835/metrics"
        until(lambda: places(fetched(page), pid) == [(ML, "train-0", "main")], "the agent to name it", UP_S)
        until(lambda: places(scene.textfile, pid) == [(ML, "train-0", "main")], "the textfile to name it", UP_S)
        rows = fetched(page)
        assert 'fairy_collector_success{collector="pods"} 1' in rows
        assert 'mountpoint="/"' in rows, "of the host, not of the container"
        assert 'mountpoint="/host' not in rows
        by_the_clock(scene, pid, install)


def by_the_clock(scene: Scene, pid: int, install: list[str]) -> None:
    """Upgraded to the CronJob, started by hand, and rolled back; the pod on the GPU goes on."""
    scene.admin.helm(*install, "--set", "gpu-session-monitoring.collection.mode=cronjob", "--set", "gpu-session-monitoring.collection.schedule=0 4 * * *", values=scene.values())
    pods = f"/api/v1/namespaces/{MONITORING}/pods"
    until(lambda: not scene.cluster.ask("GET", pods)["items"], "the agent to go", UP_S)
    assert not scene.textfile, "an agent that ends takes its file with it"
    scene.admin.kubectl("--namespace", MONITORING, "create", "job", "--from=cronjob/gpu-session-metrics-collector", "now")
    scene.admin.kubectl("--namespace", MONITORING, "wait", "--for=condition=Complete", "job/now", "--timeout=60s")
    assert places(scene.textfile, pid) == [(ML, "train-0", "main")]
    scene.admin.helm("rollback", "gpu-monitoring", "1", "--namespace", MONITORING, "--wait", "--timeout", "60s")
    assert scene.address(MONITORING, "agent")
    scene.admin.helm("uninstall", "gpu-monitoring", "--namespace", MONITORING, "--wait", "--timeout", "60s")
    assert scene.cluster.answer("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/gpu-monitoring-{MONITORING}-agent")[0] == 404


def test_no_start_of_the_image_has_to_compile_anything(scene):
    [archive] = BUILDS.glob("server-*.tar")
    sources, compiled = compiled_for_good(archive)
    assert len(sources) > 500
    assert sources - compiled == set()
