"""Admit: what is refused at the door because it can never be, and who waits for somebody else's end."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.errors import NeverFits
from gpufairy.core.fit import Refusal, fit, is_kind
from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.room import Room
from gpufairy.core.session import Outcome, Request, Seat, Session
from gpufairy.core.share import ShareKind


def check_ever_fits(request: Request, nodes: Sequence[Node]) -> None:
    """Raises NeverFits, with the largest that would fit, if even empty nodes could not hold it. A drained node may come back."""
    if not nodes:
        raise NeverFits("no node has reported yet, so nothing can be placed", "Wait a moment, or look at `fairy node list`.")
    answers = [fit(request, Room.empty(replace(node, state=NodeState.READY))) for node in nodes]
    if any(isinstance(answer, Seat) for answer in answers):
        return
    reasons = [answer.why for answer in answers if isinstance(answer, Refusal)]
    said = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more nodes" if len(reasons) > 3 else "")
    raise NeverFits(f"no node here can ever hold this, even when empty: {said}", f"The largest that would fit: {largest(request, nodes)}.")


def largest(request: Request, nodes: Sequence[Node]) -> str:
    """The most of what was asked that one node could hold, in the words of the command line."""
    fitting = [node for node in nodes if request.pool in (None, node.pool)] or list(nodes)
    best = max(fitting, key=lambda node: (len(usable_gpus(request, node)), node.cpus_milli, node.memory_bytes))
    words = []
    if request.share.kind is not ShareKind.NONE:
        words.append(f"--gpus {largest_share(request, best)}")
    if request.gpu_kind is not None and best.gpus and not any(is_kind(gpu.kind, request.gpu_kind) for gpu in best.gpus):
        words.append(f"--gpu-kind {best.gpus[0].kind}")
    if request.cpus_milli is not None:
        words.append(f"--cpus {show_cpus(min(request.cpus_milli, best.cpus_milli))}")
    if request.memory_bytes is not None:
        words.append(f"--memory {show_size(min(request.memory_bytes, best.memory_bytes)).replace(' ', '')}")
    return " ".join(words or ["--gpus 0"]) + f" on {best.name}"


def largest_share(request: Request, node: Node) -> str:
    usable = usable_gpus(request, node)
    if request.share.kind is ShareKind.MIG:
        profiles = sorted({name for gpu in usable for name in profile_names(gpu.instances, gpu.mig)})
        return f"mig:{profiles[-1]}" if profiles else "0"
    return str(min(len(usable), max(1, request.share.whole_gpus)))


def profile_names(instances: tuple[MigInstance, ...] | None, table: MigTable | None) -> list[str]:
    if instances is not None:
        return [instance.profile for instance in instances]
    return [profile.name for profile in table.profiles] if table is not None else []


def usable_gpus(request: Request, node: Node) -> list[Gpu]:
    in_mig_mode = request.share.kind is ShareKind.MIG
    kind = request.gpu_kind if any(is_kind(gpu.kind, request.gpu_kind) for gpu in node.gpus) else None
    return [gpu for gpu in node.gpus if (gpu.mig is not None) == in_mig_mode and is_kind(gpu.kind, kind)]


def blocked_for_good(session: Session, ended: Mapping[str, Session]) -> str | None:
    """Why a session that waits for others can never start: one of them did not end well."""
    for session_id in session.request.after:
        other = ended.get(session_id)
        if other is not None and other.outcome is not Outcome.DONE:
            return f"it waited for {other.name}, which ended {other.outcome}: {other.why}"
    return None


def may_line_up(session: Session, ended: Mapping[str, Session]) -> bool:
    return all(session_id in ended and ended[session_id].outcome is Outcome.DONE for session_id in session.request.after)


def waited_for(sessions: Iterable[Session]) -> set[str]:
    return {session_id for session in sessions for session_id in session.request.after}
