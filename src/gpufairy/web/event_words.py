"""Events in words: what befell a session or a GPU, what somebody changed, and to what."""
from gpufairy.core.steps import Event, is_deed
from gpufairy.web.speech import _


def what_words(what: str) -> str:
    """One that has no words yet is told by its name."""
    return {**of_sessions(), **of_gpus(), **of_people(), **of_classes()}.get(what) or what.replace("_", " ")


def of_sessions() -> dict[str, str]:
    return {
        "submitted": _("submitted"), "placed": _("placed"), "refused": _("refused"), "launch_ordered": _("launch ordered"),
        "ready": _("ready"), "exited": _("exited"), "told_to_stop": _("told to stop"), "stop_wanted": _("stop wanted"), "gone": _("gone"),
        "node_silent": _("node silent"), "node_back": _("node back"), "gave_up": _("given up"), "requeued": _("back in the queue"),
        "swapped": _("image swapped"), "adopted": _("found running"), "kept": _("kept"), "reclaimed": _("reclaimed"),
        "not_reclaimed": _("not reclaimed"), "preempt_notice": _("told to make room"), "preempted": _("sent back for others"),
        "idle_warned": _("warned: idle"), "lent": _("lent out"), "lent_back": _("its own again"), "shrunk": _("shrunk"),
        "grown": _("grown again"), "in_use_again": _("in use again"), "no_longer_guest": _("guest no longer"),
        "over_share": _("over its share"), "neighbour_over_share": _("neighbour over its share"),
        "booking_ahead": _("a booking comes"), "booking_near": _("a booking is near"), "arrived": _("its node has come"),
    }  # fmt: skip


def of_gpus() -> dict[str, str]:
    return {
        "mig_cut": _("cut by MIG"), "mig_undone": _("cut undone"), "mig_half_cut": _("cut in part"), "mig_reset_needed": _("needs a reset"),
        "mig_changed": _("cut by somebody else"), "mig_unfinished": _("cut not finished"), "mig_auto": _("cut follows the queue"),
        "leak_found": _("held by nobody"), "leak_mended": _("put right"), "leak_gone": _("held by nobody no more"),
        "mig_fixed": _("cut stays"), "doctor_looked": _("the doctor looked"), "doctor_found": _("the doctor found"),
        "booked": _("booked"), "booking_moved": _("booking moved"),
        "booking_cancelled": _("booking cancelled"), "booking_short": _("booking short of GPUs"),
    }  # fmt: skip


def of_people() -> dict[str, str]:
    return {
        "user_added": _("user added"), "user_changed": _("user changed"), "token_made": _("token made"),
        "token_revoked": _("token revoked"), "link_made": _("sign-in link made"), "key_added": _("SSH key added"),
        "key_removed": _("SSH key removed"), "signed_out_everywhere": _("signed out everywhere"), "team_added": _("team added"),
        "team_changed": _("team changed"), "team_removed": _("team removed"), "quota_set": _("quota set"),
        "disk_walk_asked": _("disk walk asked for"),
        "quota_removed": _("quota removed"), "node_drained": _("host drained"), "node_resumed": _("host back in use"),
        "maintenance_planned": _("maintenance planned"), "maintenance_began": _("maintenance begins"),
        "maintenance_over": _("maintenance is over"), "maintenance_ended": _("maintenance ended"),
        "agent_accepted": _("agent let in"), "agent_forgotten": _("agent forgotten"), "sharing_set": _("sharing set"),
        "sharing_cleared": _("sharing rule taken back"), "image_approved": _("image approved"), "image_refused": _("image refused"),
        "image_waiting": _("image waits again"), "alerts_silenced": _("alerts silenced"), "silence_ended": _("silence ended"),
        "alert_acknowledged": _("alert acknowledged"), "channel_tested": _("channel tested"), "messages_set": _("messages set up"),
        "messages_removed": _("messages ended"), "pool_added": _("pool added"), "pool_changed": _("pool changed"),
        "pool_removed": _("pool removed"), "past_moved_in": _("history moved in"), "home_moved_out": _("home read for a move"),
        "home_moved_in": _("home written by a move"), "backup_made": _("backup made"), "backup_failed": _("backup failed"),
        "old_removed": _("what was old removed"),
    }  # fmt: skip


def of_classes() -> dict[str, str]:
    return {
        "class_added": _("class added"), "class_changed": _("class changed"), "class_roster": _("roster applied"),
        "class_reset": _("class reset"), "class_links_made": _("sign-in links made"), "class_due": _("hand-ins due"),
        "class_closing": _("class closes"), "class_archived": _("class archived"), "class_removed": _("class removed"),
        "home_set_aside": _("home set aside"),
    }  # fmt: skip


def about_words(event: Event) -> str:
    """To whom or what: a session by its name, all else by its sort and name."""
    if not is_deed(event):
        return event.name
    sort, _colon, name = event.session_id.partition(":")
    words = {
        "user": _("user {name}"), "team": _("team {name}"), "quota": _("quota of {name}"), "node": _("host {name}"),
        "share": _("sharing of {name}"), "image": _("image {name}"), "mig": _("GPU {name}"), "booking": _("booking {name}"),
        "class": _("class {name}"), "silence": _("silence {name}"), "alert": _("alert {name}"), "channel": _("channel {name}"),
        "backup": _("backup {name}"),
    }  # fmt: skip
    return words[sort].format(name=name) if sort in words else event.name
