"""Cluster: a running one, as tests use it. It is asked by plain HTTPS; the shared one has a node, which is this machine."""
import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from images import BUSYBOX_IMAGE
from waits import until

ADMIN = "admin-of-the-tests"  # token
POD_S = 60.0


@dataclass(frozen=True)
class Cluster:
    folder: Path
    port: int
    node: str
    ctr: Path
    bridge: str
    address: str = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def token(self) -> str:
        return ADMIN

    @property
    def kubeconfig(self) -> Path:
        """The admin's, by token."""
        return self.folder / "admin.json"

    @property
    def kubelet_kubeconfig(self) -> Path:
        """The kubelet's own, by certificate."""
        return self.folder / "kubelet.json"

    @property
    def kubelet(self) -> Path:
        """Its root folder."""
        return self.folder / "kubelet"

    @property
    def static_pods(self) -> Path:
        return self.folder / "static"

    @property
    def pod_resources_socket(self) -> Path:
        return self.kubelet / "pod-resources" / "kubelet.sock"

    @property
    def containerd_socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def cdi(self) -> Path:
        """What lies there, containerd gives to whoever names it."""
        return self.folder / "cdi"

    @property
    def ctr_command(self) -> list[str]:
        return [str(self.ctr), "-a", str(self.containerd_socket), "-n", "k8s.io"]

    def import_image(self, archive: bytes | Path) -> None:
        """For pods with imagePullPolicy Never or IfNotPresent; `docker.io/` comes before a name without a registry."""
        source, content = ("-", archive) if isinstance(archive, bytes) else (str(archive), b"")
        subprocess.run([*self.ctr_command, "images", "import", source], input=content, capture_output=True, check=True)

    def save(self) -> None:
        (self.folder / "cluster.json").write_text(json.dumps(asdict(self), default=str))

    @staticmethod
    def load(folder: Path) -> "Cluster":
        told = json.loads((folder / "cluster.json").read_text())
        return Cluster(**{**told, "folder": Path(told["folder"]), "ctr": Path(told["ctr"])})

    def ask(self, method: str, path: str, body: Any = None, *, token: str = ADMIN) -> Any:
        """The answer, read; raises for a no."""
        status, told = self.answer(method, path, body, token=token)
        assert status < 400, f"{method} {path}: {status} {told}"
        return told

    def answer(self, method: str, path: str, body: Any = None, *, token: str = ADMIN) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=30, context=ssl.create_default_context(cafile=str(self.authority)))
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode("utf-8", "replace")

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Makes it, unless it is there."""
        status, told = self.answer("POST", path, body)
        assert status in (200, 201, 409), f"POST {path}: {status} {told}"

    def namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        self.put("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        until(lambda: self.answer("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")[0] == 200, f"the service account of {name}", POD_S)

    @contextmanager
    def pod(self, name: str, namespace: str = "default", **more: Any) -> Iterator[dict[str, Any]]:
        """On the node, and running; gone at the end. As the API server has it."""
        self.ask("POST", f"/api/v1/namespaces/{namespace}/pods", self.a_pod(name, **more))
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        try:
            until(lambda: self.is_running(path), f"pod {name} to run", POD_S)
            yield self.ask("GET", path)
        finally:
            self.ask("DELETE", f"{path}?gracePeriodSeconds=0")
            until(lambda: self.answer("GET", path)[0] == 404, f"pod {name} to go", POD_S)

    def is_ready(self, node: str) -> bool:
        status, told = self.answer("GET", f"/api/v1/nodes/{node}")
        return status == 200 and any(one["type"] == "Ready" and one["status"] == "True" for one in told["status"].get("conditions", ()))

    def is_running(self, path: str) -> bool:
        """Each of its containers, as the kubelet told."""
        told = self.ask("GET", path)["status"]
        assert told["phase"] not in ("Failed", "Succeeded"), told
        return told["phase"] == "Running" and all("running" in one["state"] for one in told["containerStatuses"])

    def a_pod(self, name: str, *containers: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        """Bound to the node, past the scheduler; `nodeName=None`: the scheduler finds it one."""
        held = {"nodeName": self.node, "containers": [*containers] or [sleeping("main")], "terminationGracePeriodSeconds": 0, **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": held}

    def pid(self, pod: dict[str, Any], container: str) -> int:
        """That the host has for the container's first process."""
        statuses = [one for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses") for one in pod["status"].get(part, ())]
        container_id = next(one["containerID"] for one in statuses if one["name"] == container).partition("://")[2]
        return self.tasks()[container_id]

    def tasks(self) -> dict[str, int]:
        """PIDs by container, as containerd has them."""
        lines = subprocess.run([*self.ctr_command, "task", "ls"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        return {words[0]: int(words[1]) for words in map(str.split, lines)}


def sleeping(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": f"docker.io/{BUSYBOX_IMAGE}", "imagePullPolicy": "Never", "command": ["sleep", "100000"], **more}
