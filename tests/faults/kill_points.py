"""A server killed at each failpoint: which scene passes it on which engine, on which stage, and the cycle of one death."""
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.server import LiveServer
from kill_scenes import (
    OTHER_IMAGE,
    Adopted,
    BackedUp,
    Committed,
    Cut,
    Expired,
    Job,
    Kept,
    Preempted,
    Reclaimed,
    Refused,
    Restored,
    Retried,
    Scene,
    Silent,
    Stopped,
    Swapped,
    Upgraded,
    begin_start,
)
from kill_stage import Stage
from witness import containers_of, pods_of

from daemons import RealDaemon, server_id
from images import BUSYBOX_IMAGE, busybox_layer, image_tar
from kube.cluster import Cluster
from kube.tools import TOOLS_IMAGE
from kube.volumes import volumes

Make = Callable[[], Scene]

JOB = (
    "before_submitted_written", "after_submitted_written", "after_placed_written", "after_launch_ordered_written",
    "before_ready_written", "after_ready_written", "before_exited_written", "after_exited_written",
    "before_launch", "after_launch_before_noted", "before_clear", "after_clear", "before_commit", "after_commit",
)  # fmt: skip
STOP = (
    "after_stop_wanted_written", "after_told_to_stop_written", "before_stop", "after_stop_before_noted", "before_gone_written",
    "after_gone_written",
)  # fmt: skip
# The order matters in one thing: those that lose the database come last.
ON_PROCESS: dict[str, Make] = {
    **dict.fromkeys((*JOB, "after_label_before_spawn", "after_spawn_before_watched", "after_run_renamed_before_removed"), Job),
    **dict.fromkeys((*STOP, "after_stop_marked_before_signal"), Stopped),
    "before_gone_written": Expired,
    "after_requeued_written": Retried,
    "after_refused_written": Refused,
    "after_node_silent_written": Silent,
    "after_node_back_written": lambda: Silent("back"),
    "after_gave_up_written": lambda: Silent("gone"),
    "after_kept_written": Kept,
    "after_preempted_written": Preempted,
    "after_reclaimed_written": Reclaimed,
    **dict.fromkeys(("after_cut_ordered_before_cut", "after_cut_before_noted", "after_cut_noted_before_closed"), Cut),
    "after_backup_packed_before_named": BackedUp,
    "after_old_aside_before_restored": Restored,
    "after_database_before_files_restored": lambda: Restored(new=True),
    "after_adopted_written": Adopted,
    **dict.fromkeys(("after_backup_before_upgrade", "before_upgrade_commit"), Upgraded),
    "between_upgrade_steps": lambda: Upgraded(passing=4),
}
ON_DOCKER: dict[str, Make] = {
    **dict.fromkeys(
        (
            "after_launch_ordered_written", "before_launch", "after_folders_before_container_create", "after_container_create_before_start",
            "after_container_start_before_told", "after_launch_before_noted", "after_ready_written", "before_exited_written",
            "after_exited_written", "before_clear", "after_container_remove_before_folders",
        ),
        Job,
    ),
    **dict.fromkeys(("after_told_to_stop_written", "before_stop", "after_stop_before_noted", "before_gone_written"), Stopped),
    "after_requeued_written": Retried,
    **dict.fromkeys(("after_container_commit_before_name", "after_image_made_before_noted"), Committed),
    **dict.fromkeys(("after_swap_kept_before_written", "after_swapped_written"), Swapped),
    "after_adopted_written": Adopted,
}  # fmt: skip
ON_KUBERNETES: dict[str, Make] = {
    **dict.fromkeys(
        (
            "after_home_claim_before_secret", "after_secret_before_pod", "after_pod_create_before_told", "after_ready_written",
            "after_pod_remove_before_secret",
        ),
        Job,
    ),
    **dict.fromkeys(("after_pod_delete_before_told", "before_gone_written"), Stopped),
    "after_requeued_written": Retried,
    "after_adopted_written": Adopted,
}  # fmt: skip
TABLES = {"process": ON_PROCESS, "docker": ON_DOCKER, "kubernetes": ON_KUBERNETES}
# With processes these have been seen already; with containers they are in the long run alone.
SAME_ON_DOCKER = (
    "after_launch_ordered_written", "before_launch", "after_ready_written", "after_exited_written", "before_clear",
    "after_told_to_stop_written", "before_gone_written",
)  # fmt: skip
DOCKER_SETTINGS = """
[images]
default = "{image}"
allow = ["fairy-test/*", "fairy-kp/*"]
pull = false
[docker]
socket = "{socket}"
[node]
name = "box"
cpus = 16
memory = "32GiB"
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


def killed_at(stage: Stage, point: str, scene: Scene, *, again: int = 0) -> None:
    """One cycle: the scene is played until the server dies at the point; the next server makes it whole; the witness looks at all.

    `again`: how many of the next servers die there too, while they make up for it."""
    stage.back()
    scene.begin(stage)
    stage.arm(point, scene.passing)
    scene.play(stage)
    stage.died_at(point)
    scene.mend(stage)
    for _ in range(again):
        stage.arm(point)
        begin_start(stage)
        stage.died_at(point)
    stage.back()
    scene.settle(stage)
    stage.check()


@contextmanager
def process_stage(folder: Path) -> Iterator[Stage]:
    stage = Stage(LiveServer(folder, PROCESS_SETTINGS, ("--simulate", "3xA100-40GB")))
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
    live = LiveServer(folder, DOCKER_SETTINGS.format(image=BUSYBOX_IMAGE, socket=daemon.socket), ("--simulate", "2xA100-40GB"), engine="docker")
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
