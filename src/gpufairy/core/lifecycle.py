"""The life of a session: one table, and one function that reads it, called by `steps.step` alone.

Everything that may change a session's phase is in ALLOWED. To learn what the platform can do to
a session, read the table; to teach it something new, add a row.
"""
from enum import StrEnum

from gpufairy.core.errors import IllegalStep


class Phase(StrEnum):
    QUEUED = "queued"  # waiting for its turn or for room
    PLACED = "placed"  # GPUs are set aside on one node; nothing runs yet
    STARTING = "starting"  # the engine was asked; the workload is not ready
    RUNNING = "running"  # ready for its owner
    STOPPING = "stopping"  # asked to leave; the GPUs are still held
    LOST = "lost"  # its node went silent; the GPUs are still held
    ENDED = "ended"  # over; the GPUs are free; never changes again


class Happening(StrEnum):
    PLACED = "placed"
    REFUSED = "refused"
    LAUNCH_ORDERED = "launch_ordered"
    READY = "ready"
    EXITED = "exited"
    TOLD_TO_STOP = "told_to_stop"
    GONE = "gone"
    NODE_SILENT = "node_silent"
    NODE_BACK = "node_back"
    GAVE_UP = "gave_up"
    REQUEUED = "requeued"
    SWAPPED = "swapped"  # another image in the same seat


P, H = Phase, Happening

ALLOWED: dict[tuple[Phase, Happening], Phase] = {
    (P.QUEUED, H.PLACED): P.PLACED,
    (P.QUEUED, H.TOLD_TO_STOP): P.ENDED,
    (P.PLACED, H.LAUNCH_ORDERED): P.STARTING,
    (P.PLACED, H.REFUSED): P.QUEUED,
    (P.PLACED, H.TOLD_TO_STOP): P.ENDED,
    (P.PLACED, H.NODE_SILENT): P.QUEUED,
    (P.STARTING, H.READY): P.RUNNING,
    (P.STARTING, H.EXITED): P.ENDED,
    (P.STARTING, H.REFUSED): P.QUEUED,
    (P.STARTING, H.SWAPPED): P.STARTING,
    (P.STARTING, H.TOLD_TO_STOP): P.STOPPING,
    (P.STARTING, H.NODE_SILENT): P.LOST,
    (P.RUNNING, H.EXITED): P.ENDED,
    (P.RUNNING, H.SWAPPED): P.STARTING,
    (P.RUNNING, H.TOLD_TO_STOP): P.STOPPING,
    (P.RUNNING, H.NODE_SILENT): P.LOST,
    (P.STOPPING, H.GONE): P.ENDED,
    (P.STOPPING, H.REQUEUED): P.QUEUED,
    (P.STOPPING, H.SWAPPED): P.STARTING,
    (P.STOPPING, H.NODE_SILENT): P.LOST,
    (P.LOST, H.NODE_BACK): P.STARTING,
    (P.LOST, H.EXITED): P.ENDED,
    (P.LOST, H.GAVE_UP): P.ENDED,
    (P.LOST, H.REQUEUED): P.QUEUED,
}

HOLDS_GPUS = frozenset({P.PLACED, P.STARTING, P.RUNNING, P.STOPPING, P.LOST})


def phase_after(phase: Phase, what: Happening, session_id: str) -> Phase:
    try:
        return ALLOWED[phase, what]
    except KeyError:
        raise IllegalStep(f"session {session_id} is {phase}: {what} cannot happen to it") from None


def state_word(phase: Phase) -> str:
    """The word users see: QUEUED and PLACED are both PENDING."""
    return "PENDING" if phase in (Phase.QUEUED, Phase.PLACED) else phase.name
