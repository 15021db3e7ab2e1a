"""An engine over a real Kubernetes with a real kubelet, in a namespace and under a server's name of its own."""
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from daemons import server_id
from gpufairy.engines.contract import Credentials
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kubernetes import KubernetesEngine
from gpufairy.engines.pod_settings import HomeClaims, PodSettings, ToolsBy
from gpufairy.engines.run_folder import Places
from images import BUSYBOX_IMAGE
from kube.cluster import Cluster
from kube.tools import TOOLS_IMAGE
from kube.volumes import volumes

TOKEN = "secret-token-canary"
UIDS = {"student1": 20_001, "student2": 20_002, "kim": 20_003, "kim-a": 20_004}


@dataclass(slots=True)
class PodScene:
    cluster: Cluster
    folder: Path
    storage_class: str
    server_id: str = field(default_factory=server_id)

    @property
    def namespace(self) -> str:
        return f"fairy-{self.server_id}"

    @property
    def settings(self) -> PodSettings:
        return PodSettings(
            namespace=self.namespace, default_image=f"docker.io/{BUSYBOX_IMAGE}", tools_image=TOOLS_IMAGE, tools_by=ToolsBy.AUTO,
            server_url="http://127.0.0.1:8420", homes=HomeClaims(self.storage_class, "1Gi"), pull_policy="IfNotPresent",
            node_selector=f"kubernetes.io/hostname={self.cluster.node}",
        )  # fmt: skip

    def engine(self, kubeconfig: Path | None = None, **settings: Any) -> KubernetesEngine:
        """Each call: another server's engine over the same cluster, as the admin or as another may."""
        path = kubeconfig or self.cluster.kubeconfig
        api = KubeApi(load_access(path, None, os.environ))
        return KubernetesEngine(
            api, Places(self.folder / "data"), lambda _: Credentials("http://127.0.0.1:8420", TOKEN), uid_of=UIDS.__getitem__,
            settings=replace(self.settings, **settings), server_id=self.server_id, kubeconfig=str(path),
        )  # fmt: skip

    def pods(self) -> list[dict[str, Any]]:
        return self.cluster.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]


@contextmanager
def pod_scene(cluster: Cluster) -> Iterator[PodScene]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-ke-"))
    with volumes(cluster, 3) as storage_class:
        here = PodScene(cluster, folder, storage_class)
        cluster.namespace(here.namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
        try:
            yield here
        finally:
            for pod in here.pods():
                with contextlib.suppress(AssertionError):  # gone by itself
                    cluster.ask("DELETE", f"/api/v1/namespaces/{here.namespace}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
            cluster.answer("DELETE", f"/api/v1/namespaces/{here.namespace}")
            shutil.rmtree(folder)
