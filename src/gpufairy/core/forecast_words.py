"""A forecast in words: what comes free where, and who leaves for it. Times are left to whoever shows them: they know the reader's clock."""
from collections.abc import Callable, Sequence

from gpufairy.core.amounts import show_duration
from gpufairy.core.forecast import Start
from gpufairy.core.lifecycle import Phase
from gpufairy.core.run_time import RunTime
from gpufairy.core.session import GpuSeat, Seat, Session
from gpufairy.core.share import PARTS, show_parts
from gpufairy.core.timeline import NEVER

MOST_OWNERS = 3  # named in one line

Shown = Callable[[str], bool]  # of which owners the reader may know what they call their sessions


def start_why(start: Start, shown: Shown) -> str:
    """Why then and not sooner."""
    if start.typical is None:
        return unknown_why(start, shown)
    if start.over:
        return "when the quota allows it"
    if start.seat is None or not start.leavers:
        return "there is room on " + (start.seat.node if start.seat is not None else "a node") + " then"
    sessions = [session for _, session in start.leavers]
    return f"{room_words(start.seat)} on {start.seat.node} when {leavers_words(sessions, shown)}"


def unknown_why(start: Start, shown: Shown) -> str:
    if start.over:
        return "not known: when the quota allows it hangs on sessions of which nobody knows how long they run"
    if start.seat is None:
        return "not known: of those in its way, or of the nodes that are ready, nothing tells of a time when it would fit"
    endless = [session for until, session in start.leavers if until == NEVER]
    whose = f" of {owners_words(endless)}" if endless else ""
    return f"not known: it waits for sessions without a time limit{whose}, of which past runs tell nothing"


def own_time(found: RunTime | None) -> str:
    """What is taken for the time of one that gave no limit."""
    if found is None:
        return ""
    return f"without --time it is taken to run {show_duration(found.typical)}, and up to {show_duration(found.high)}, as {found.of} did"


def leavers_words(sessions: Sequence[Session], shown: Shown) -> str:
    last = sessions[-1]
    ahead = ", which is ahead of it in line," if last.phase is Phase.QUEUED else ""
    before = {session.owner for session in sessions[:-1]} - {last.owner}
    too = f", after sessions of {owners_words(sessions[:-1])}" if before else ""
    name = f"{last.owner}'s {last.name}" if shown(last.owner) else f"a session of {last.owner}"
    return f"{name}{ahead} ends{too}"


def owners_words(sessions: Sequence[Session]) -> str:
    owners = list(dict.fromkeys(session.owner for session in sessions))
    more = f" and {len(owners) - MOST_OWNERS} more" if len(owners) > MOST_OWNERS else ""
    return ", ".join(owners[:MOST_OWNERS]) + more


def room_words(seat: Seat) -> str:
    """`2 GPUs of kind A100-40GB come free`."""
    if not seat.gpus:
        return "room comes free"
    kinds = ", ".join(sorted({gpu.kind for gpu in seat.gpus if gpu.kind}))
    of_kind = f" of kind {kinds}" if kinds else ""
    return f"{amount_words(seat.gpus)}{of_kind} come{'s' if seat.gpu_parts <= PARTS else ''} free"


def amount_words(gpus: Sequence[GpuSeat]) -> str:
    if gpus[0].profile:
        return f"a {gpus[0].profile}"
    parts = sum(gpu.parts for gpu in gpus)
    return f"{show_parts(parts)} GPU{'s' if parts > PARTS else ''}"
