"""Admit: what is refused at the door because it can never be, and who waits for somebody else's end."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.errors import NeverFits
from gpufairy.core.fit import fit, is_kind, seats_together
from gpufairy.core.mig import MigTable
from gpufairy.core.mig_could import NO_TABLES, how_to_cut
from gpufairy.core.mig_cut import as_it_may_be_cut
from gpufairy.core.node import Node, NodeState
from gpufairy.core.room import Room
from gpufairy.core.session import Outcome, Request, Seat, Session
from gpufairy.core.share import NO_GPU, ONE_GPU, PARTS, Share, ShareKind
from gpufairy.core.sharing import opened


def check_ever_fits(request: Request, nodes: Sequence[Node], tables: Mapping[str, MigTable] = NO_TABLES) -> None:
    """Raises NeverFits, with the largest that would fit, if even empty nodes could not hold it. A drained node may come back.
    `tables`: by kind, how GPUs can be cut that are not in MIG mode."""
    if not nodes:
        raise NeverFits("no node has reported yet, so nothing can be placed", "Wait a moment, or look at `fairy node list`.")
    empty, reasons = [], []
    for node in nodes:  # one at a time: most requests fit on the first, and there may be thousands
        empty.append(replace(as_it_may_be_cut(opened(node)), state=NodeState.READY))
        answer = fit(request, Room.empty(empty[-1]))
        if isinstance(answer, Seat):
            return
        reasons.append(answer.why)
    said = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more nodes" if len(reasons) > 3 else "")
    if (next_step := how_to_cut(request, empty, tables)) is not None:
        raise NeverFits(f"no GPU here is cut for {request.share}: {said}", next_step)
    raise NeverFits(f"no node here can ever hold this, even when empty: {said}", f"The largest that would fit: {largest(request, empty)}.")


def check_fit_together(request: Request, count: int, nodes: Sequence[Node]) -> None:
    """Raises NeverFits, with how many would fit, if even empty nodes could not hold all of them at once."""
    rooms = {node.name: Room.empty(replace(as_it_may_be_cut(opened(node)), state=NodeState.READY)) for node in nodes}
    for seated in range(count):
        if seats_together([request], rooms) is None:
            found = f"all nodes together hold {seated} of these at once, {count} asked"
            raise NeverFits(found, f"Ask for --count {seated}, or leave out --together: then they start one by one.")


def largest(request: Request, nodes: Sequence[Node]) -> str:
    """The most of what was asked that one empty node could hold, in the words of the command line. Tried, not guessed.

    `nodes`: ready and open.
    """
    for share in shares_to_offer(request):
        for node in sorted(nodes, key=lambda node: (len(node.gpus), node.cpus_milli, node.memory_bytes), reverse=True):
            offer = on_node(replace(request, share=share), node)
            if isinstance(fit(offer, Room.empty(node)), Seat):
                return in_words(request, offer, node)
    return "--gpus 0"


def shares_to_offer(request: Request) -> list[Share]:
    """What was asked, then less and less of it: fewer whole GPUs, one, half of one, none."""
    fewer = [Share(ShareKind.WHOLE, count * PARTS) for count in range(request.share.whole_gpus - 1, 0, -1)]
    return list(dict.fromkeys([request.share, *fewer, ONE_GPU, Share(ShareKind.FRACTION, PARTS // 2), NO_GPU]))


def on_node(request: Request, node: Node) -> Request:
    """The request cut down to what the node has in all."""
    return replace(
        request,
        cpus_milli=None if request.cpus_milli is None else min(request.cpus_milli, node.cpus_milli),
        memory_bytes=None if request.memory_bytes is None else min(request.memory_bytes, node.memory_bytes),
        gpu_kind=request.gpu_kind if any(is_kind(gpu.kind, request.gpu_kind) for gpu in node.gpus) else None,
        pool=request.pool if request.pool == node.pool else None,
    )


def in_words(asked: Request, offer: Request, node: Node) -> str:
    words = [f"--gpus {offer.share}"]
    if offer.cpus_milli is not None:
        words.append(f"--cpus {show_cpus(offer.cpus_milli)}")
    if offer.memory_bytes is not None:
        words.append(f"--memory {show_size(offer.memory_bytes).replace(' ', '')}")
    left_out = [option for option, gone in (("--gpu-kind", asked.gpu_kind != offer.gpu_kind), ("--pool", asked.pool != offer.pool)) if gone]
    return " ".join(words) + (f", without {' and '.join(left_out)}," if left_out else "") + f" on {node.name}"


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
