"""Somebody who installs the chart on the tests' cluster, whose node has one (pretended) GPU."""
import urllib.request
from pathlib import Path
from typing import Any

from fake_nvml import FakeGpu, FakeMachine, FakeNvml, FakeProcess
from journeys.collector_scene import labels_of
from kube.cluster import Cluster
from kube.helm import Admin
from waits import until

UP_S = 60.0
TEXTFILE = "gpu_sessions.prom"


class Scene:
    """One node with one pretended GPU, and somebody who installs the chart there."""

    def __init__(self, cluster: Cluster, image: str, folder: Path) -> None:
        self.cluster, self.folder, self.admin = cluster, folder, Admin(cluster, folder)
        self._driver = FakeNvml(folder / "driver")
        self._driver.script.parent.mkdir()
        self._image = image
        self.put()

    def put(self, *pids: int) -> None:
        self._driver.write(FakeMachine((FakeGpu(processes=tuple(FakeProcess(pid, 1024, 85, 60) for pid in pids)),)))

    def values(self, **more: Any) -> dict[str, Any]:
        """What this machine needs to be told and another would not: where the image, the driver and the kubelet are."""
        repository, _, tag = self._image.rpartition(":")
        driver = {"library": self._driver.library.parent, "script": self._driver.script.parent}
        agents = {
            "kubeletPath": str(self.cluster.kubelet), "dataPath": str(self.folder / "agent"), "env": [{"name": name, "value": value} for name, value in self._driver.env.items()],
            "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in driver.items()],
            "volumeMounts": [{"name": name, "mountPath": str(path)} for name, path in driver.items()],
            "collection": {"textfile": str(self.folder / "textfile"), "every": "0.2s"}, "server": more.pop("report_to", ""),
        }  # fmt: skip
        return {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}, "agents": agents, **more}

    @property
    def textfile(self) -> str:
        path = self.folder / "textfile" / TEXTFILE
        return path.read_text() if path.exists() else ""

    def address(self, namespace: str, component: str) -> str:
        """Of its only pod, once that is ready."""

        def ready() -> str:
            found = self.cluster.ask("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Fcomponent%3D{component}")["items"]
            up = [pod["status"]["podIP"] for pod in found if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)]
            return up[0] if len(up) == len(found) == 1 else ""

        return until(ready, f"the {component}", UP_S)


def is_ready(pod: dict[str, Any]) -> bool:
    return any((one["type"], one["status"]) == ("Ready", "True") for one in pod["status"].get("conditions", ()))


def places(page: str, pid: int) -> list[tuple[str, str, str]]:
    rows = [labels_of(line) for line in page.splitlines() if line.startswith("gpu_process_info{")]
    return [(row["namespace"], row["pod"], row["container"]) for row in rows if row["pid"] == str(pid)]


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
