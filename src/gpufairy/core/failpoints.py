"""Failpoints: named places between a write and a deed, where tests see what a server leaves that dies there. All names are in POINTS.

Nothing here can kill: whoever sets `on_pass` says what happens, and no code of the product does, whatever its environment says.
"""
from collections.abc import Callable, Iterable
from typing import Protocol

VARIABLE = "FAIRY_FAILPOINT"  # tells the tests' own start command where to look; the shipped one refuses to start with it

# Of a session's history: when what befell it is about to be written, and when it was and nobody has acted on it yet.
TRANSITIONS = frozenset({
    "before_submitted_written", "after_submitted_written", "after_placed_written", "after_launch_ordered_written",
    "before_ready_written", "after_ready_written", "before_exited_written", "after_exited_written", "after_refused_written",
    "after_stop_wanted_written", "after_told_to_stop_written", "before_gone_written", "after_gone_written", "after_requeued_written",
    "after_node_silent_written", "after_node_back_written", "after_gave_up_written", "after_adopted_written", "after_kept_written",
    "after_preempted_written", "after_reclaimed_written", "after_swapped_written",
})  # fmt: skip
# Around what is asked of the outside.
CALLS = frozenset({
    "before_launch", "after_launch_before_noted", "before_stop", "after_stop_before_noted", "before_clear", "after_clear",
    "after_label_before_spawn", "after_spawn_before_watched", "after_stop_marked_before_signal", "after_run_renamed_before_removed",
    "after_folders_before_container_create", "after_container_create_before_start", "after_container_start_before_told",
    "after_container_remove_before_folders", "after_container_commit_before_name", "after_image_made_before_noted",
    "after_swap_kept_before_written",
    "after_home_claim_before_secret", "after_secret_before_pod", "after_pod_create_before_told", "after_pod_delete_before_told",
    "after_pod_remove_before_secret",
    "after_cut_ordered_before_cut", "after_cut_before_noted", "after_cut_noted_before_closed",
    "before_letter_sent", "after_letter_sent_before_noted",
    "before_pool_make", "after_device_plugin_before_node_pool", "after_pool_make_before_noted",
    "before_pool_remove", "after_node_pool_gone_before_device_plugin", "after_pool_remove_before_noted",
})  # fmt: skip
# Of the store's own files.
STORE = frozenset({
    "before_commit", "after_commit", "after_backup_before_upgrade", "between_upgrade_steps", "before_upgrade_commit",
    "after_backup_packed_before_named", "after_old_aside_before_restored", "after_database_before_files_restored",
})  # fmt: skip
POINTS = TRANSITIONS | CALLS | STORE

on_pass: Callable[[str], None] | None = None  # set by the tests' own start command alone


class Told(Protocol):
    @property
    def what(self) -> str: ...


def passing(name: str) -> None:
    if on_pass is not None:
        on_pass(name)


def passing_events(side: str, events: Iterable[Told]) -> None:
    """`side`: before or after they are written."""
    if on_pass is not None:
        for event in events:
            if (name := f"{side}_{event.what}_written") in TRANSITIONS:
                on_pass(name)
