"""What an admin can do for somebody who asks for a MIG instance that no GPU is cut into, though one could be."""
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gpufairy.core.fit import fit
from gpufairy.core.mig import MigTable
from gpufairy.core.node import Node, NodeState
from gpufairy.core.room import Room
from gpufairy.core.session import GpuSeat, Request, Seat
from gpufairy.core.share import ShareKind

NO_TABLES: Mapping[str, MigTable] = MappingProxyType({})


def how_to_cut(request: Request, nodes: Sequence[Node], tables: Mapping[str, MigTable] = NO_TABLES) -> str | None:
    """`tables`: by kind, how GPUs can be cut that are not in MIG mode. None: no cut of any GPU here would help."""
    if request.share.kind is not ShareKind.MIG:
        return None
    in_mig_mode, any_gpu = _seat_if_cut(request, nodes, NO_TABLES), _seat_if_cut(request, nodes, tables)
    gpu = in_mig_mode or any_gpu
    if gpu is None:
        return None
    apply = f"`fairy mig apply --gpu {gpu.uuid} --want {request.share.profile}`"
    follow = f", or let its cut follow the queue: `fairy mig auto on {gpu.uuid}`" if in_mig_mode else ""
    return f"An admin can cut one for it: {apply}{follow}. See `fairy mig show`."


def _seat_if_cut(request: Request, nodes: Sequence[Node], tables: Mapping[str, MigTable]) -> GpuSeat | None:
    """Where it would sit if all GPUs were empty and cut as it needs."""
    for node in nodes:
        gpus = tuple(replace(gpu, mig=gpu.mig or tables.get(gpu.kind), instances=None) for gpu in node.gpus)
        answer = fit(request, Room.empty(replace(node, gpus=gpus, state=NodeState.READY)))
        if isinstance(answer, Seat):
            return answer.gpus[0]
    return None
