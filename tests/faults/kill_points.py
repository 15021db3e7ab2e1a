"""A server killed at each failpoint: which scene passes it on which engine, and the cycle of one death."""
from collections.abc import Callable

from kill_outside import Lettered, PoolMade, PoolRemoved
from kill_scene import Scene, begin_start
from kill_sessions import (
    Adopted,
    Committed,
    Expired,
    Job,
    Kept,
    Preempted,
    Reclaimed,
    Refused,
    Retried,
    Silent,
    Stopped,
    Swapped,
)
from kill_stage import Stage
from kill_upkeep import BackedUp, Cut, Restored, Upgraded

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
    **dict.fromkeys(("before_letter_sent", "after_letter_sent_before_noted"), Lettered),
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
# With Karpenter, the one cloud that can be had on a machine of one's own.
ON_POOLS: dict[str, Make] = {
    **dict.fromkeys(("before_pool_make", "after_device_plugin_before_node_pool", "after_pool_make_before_noted"), PoolMade),
    **dict.fromkeys(("before_pool_remove", "after_node_pool_gone_before_device_plugin", "after_pool_remove_before_noted"), PoolRemoved),
}
ON_POSTGRES: dict[str, Make] = {point: ON_PROCESS[point] for point in (*JOB, *STOP, "after_requeued_written")}
TABLES = {"process": ON_PROCESS, "docker": ON_DOCKER, "kubernetes": ON_KUBERNETES, "pools": ON_POOLS, "postgres": ON_POSTGRES}
# With processes these have been seen already; with containers they are in the long run alone.
SAME_ON_DOCKER = (
    "after_launch_ordered_written", "before_launch", "after_ready_written", "after_exited_written", "before_clear",
    "after_told_to_stop_written", "before_gone_written",
)  # fmt: skip
# Each new server waits 15 s for the lease of the dead one: the rest is in the long run alone.
TELLING_ON_POSTGRES = ("before_commit", "after_commit", "after_launch_before_noted", "after_told_to_stop_written", "after_requeued_written")


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
