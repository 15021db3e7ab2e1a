"""A server as it is shipped, whose sessions are pods of a real cluster: in a namespace of its own, which goes with it."""
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.server import LiveServer

from daemons import server_id
from images import BUSYBOX_IMAGE
from kube.cluster import Cluster
from kube.tools import TOOLS_IMAGE
from kube.volumes import volumes

SETTINGS = """
[images]
{images}
[server]
listen = "{address}"
{parts}
[kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
tools_image = "{tools}"
nodes = "kubernetes.io/hostname={node}"
homes.storage_class = "{storage}"
homes.size = "1Gi"
{kubernetes}
"""


@contextmanager
def kube_server(
    cluster: Cluster, *, homes: int = 3, images: str = f'default = "docker.io/{BUSYBOX_IMAGE}"', kubernetes: str = "", parts: str = "",
    ssh: bool = False, prepare: Callable[[str], object] = lambda _: None,
) -> Iterator[LiveServer]:  # fmt: skip
    """`images`, `kubernetes`: more lines of those sections; `parts`: whole ones. `prepare` is told the namespace before the server starts."""
    folder, namespace = Path(tempfile.mkdtemp(prefix="fairy-k-")), f"fairy-{server_id()}"
    with volumes(cluster, homes) as storage:
        cluster.namespace(namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
        prepare(namespace)
        settings = SETTINGS.format(
            images=images, parts=parts, kubernetes=kubernetes, address=cluster.address, kubeconfig=cluster.kubeconfig, namespace=namespace,
            tools=TOOLS_IMAGE, node=cluster.node, storage=storage,
        )  # fmt: skip
        with LiveServer(folder, settings, engine="kubernetes", ssh=ssh) as started:
            started.namespace = namespace
            yield started
        cluster.answer("DELETE", f"/api/v1/namespaces/{namespace}")
    shutil.rmtree(folder, ignore_errors=True)
