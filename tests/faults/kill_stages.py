"""The stages that servers are killed on: on each engine, with each store, beside whatever a scene needs of the outside."""
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.server import LiveServer
from kill_sessions import OTHER_IMAGE
from kill_stage import Stage
from witness import containers_of, pods_of
from witness_tables import PostgresTables

from daemons import RealDaemon, server_id
from docker_settings import docker_settings
from endpoints import http_endpoint
from images import BUSYBOX_IMAGE, busybox_layer, image_tar
from kube.cluster import Cluster
from kube.tools import TOOLS_IMAGE
from kube.volumes import volumes

SIMULATED = ("--simulate", "3xA100-40GB")
DOCKER_SETTINGS = """
[policy]
stop_grace = "3s"
[backup]
every = "off"
"""
KUBERNETES_SETTINGS = """
[images]
default = "docker.io/{image}"
[server]
listen = "{address}"
[kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
tools_image = "{tools}"
nodes = "kubernetes.io/hostname={node}"
homes.storage_class = "{storage}"
homes.size = "1Gi"
[policy]
stop_grace = "3s"
[backup]
every = "off"
"""
PROCESS_SETTINGS = """
[node]
cpus = 8
memory = "16GiB"
name = "box"
[policy]
silent_after = "1s"
stop_grace = "3s"
preempt_after = "1s"
preempt_notice = "1s"
[reclaim.teams.strict]
idle_after = "3s"
grace = "1s"
lend = false
stop = true
[backup]
every = "off"
"""
# Told of nothing but certificates, which are looked at when a server starts.
LETTER_SETTINGS = """
[alerts]
gather = "1s"
certificates = []
[[channels]]
name = "hook"
kind = "webhook"
url = "{inbox}/alerts"
rules = ["certificate_ending"]
"""
POOL_SETTINGS = """
[images]
default = "docker.io/{image}"
[server]
listen = "127.0.0.1"
[kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
homes.access = "none"
[backup]
every = "off"
"""


@contextmanager
def process_stage(folder: Path) -> Iterator[Stage]:
    """With an inbox for what is told to admins."""
    with http_endpoint() as inbox:
        settings = PROCESS_SETTINGS + LETTER_SETTINGS.format(inbox=inbox.url)
        stage = Stage(LiveServer(folder, settings, SIMULATED))
        stage.inbox = inbox
        try:
            stage.open()
            yield stage
        finally:
            stage.end()


@contextmanager
def postgres_stage(folder: Path, url: str) -> Iterator[Stage]:
    settings = f"[server]\nstore = '{url}'\n{PROCESS_SETTINGS}"
    stage = Stage(LiveServer(folder, settings, SIMULATED), tables=PostgresTables(url))
    try:
        stage.open()
        yield stage
    finally:
        stage.end()


@contextmanager
def docker_stage(daemon: RealDaemon) -> Iterator[Stage]:
    layer = busybox_layer()
    layer.file("etc/other", b"another image\n")
    daemon.load(image_tar(OTHER_IMAGE, layer))
    folder = Path(tempfile.mkdtemp(prefix="fairy-kp-"))  # short: a socket's path has at most 107 bytes
    live = LiveServer(folder, docker_settings(daemon.socket, DOCKER_SETTINGS, allow="fairy-kp/*"), ("--simulate", "2xA100-40GB"), engine="docker")
    stage = Stage(live, containers_of(daemon, (live.data / "server-id").read_text))
    try:
        stage.open()
        yield stage
    finally:
        stage.end()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def kubernetes_stage(cluster: Cluster) -> Iterator[Stage]:
    """`cluster` has the tools' image."""
    folder, namespace = Path(tempfile.mkdtemp(prefix="fairy-kp-")), f"fairy-{server_id()}"
    with volumes(cluster, 2) as storage:
        cluster.namespace(namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
        settings = KUBERNETES_SETTINGS.format(
            image=BUSYBOX_IMAGE, address=cluster.address, kubeconfig=cluster.kubeconfig, namespace=namespace, tools=TOOLS_IMAGE,
            node=cluster.node, storage=storage,
        )  # fmt: skip
        stage = Stage(LiveServer(folder, settings, engine="kubernetes"), pods_of(cluster, namespace))
        stage.witness.homes.append(cluster.folder / "volumes")
        stage.witness.late_s = 15.0  # a kubelet tells what has ended when it comes to it
        stage.defaults, stage.asks_free = {"gpus": "0", "cpus": "0.05", "memory": "64MiB"}, False
        try:
            stage.open()
            yield stage
        finally:
            stage.end()
            cluster.answer("DELETE", f"/api/v1/namespaces/{namespace}")
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def pool_stage(cluster: Cluster) -> Iterator[Stage]:
    """`cluster` has a Karpenter and no node: there is nothing that could run."""
    folder, namespace = Path(tempfile.mkdtemp(prefix="fairy-kp-")), f"fairy-{server_id()}"
    cluster.namespace(namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
    settings = POOL_SETTINGS.format(image=BUSYBOX_IMAGE, kubeconfig=cluster.kubeconfig, namespace=namespace)
    stage = Stage(LiveServer(folder, settings, engine="kubernetes"), pods_of(cluster, namespace))
    stage.cluster, stage.asks_free = cluster, False
    try:
        stage.start()
        yield stage
    finally:
        stage.end()
        shutil.rmtree(folder, ignore_errors=True)
