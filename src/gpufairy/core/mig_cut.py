"""A GPU's cut as the planner sees it: from the node, who holds what, and who computes there. And the node after a cut."""
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gpufairy.core.holders import Holder
from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.mig_plan import CutNow
from gpufairy.core.node import Gpu, Node


@dataclass(frozen=True, slots=True)
class Cut:
    """What of a GPU a change of its cut changes."""

    mig: MigTable | None
    instances: tuple[MigInstance, ...] | None


def cut_now(gpu: Gpu, table: MigTable, holders: Sequence[Holder], busy: Collection[str] = ()) -> CutNow:
    """`busy`: UUIDs of instances on which anybody's process is. One that is cut on demand has just the instances that are held."""
    held = {holder.gpu.start for holder in holders if holder.gpu.profile}
    if gpu.instances is None:
        seats = [holder.gpu for holder in holders if holder.gpu.profile]
        return CutNow(gpu.kind, table, tuple(MigInstance(s.profile, s.start, s.size, s.instance_uuid) for s in seats), frozenset(held))
    used = held | {one.start for one in gpu.instances if one.uuid in busy}
    return CutNow(gpu.kind, table, gpu.instances, frozenset(used))


def with_cuts(node: Node, cuts: Mapping[str, Cut], auto: Collection[str] = ()) -> Node:
    """`cuts`: by the UUID of the GPU, those that were changed since the node was found. `auto`: whose cut follows what waits."""
    if not cuts and not auto:
        return node
    return replace(node, gpus=tuple(_cut_anew(gpu, cuts.get(gpu.uuid), gpu.uuid in auto) for gpu in node.gpus))


def _cut_anew(gpu: Gpu, cut: Cut | None, auto: bool) -> Gpu:
    if cut is not None:
        gpu = replace(gpu, mig=cut.mig, instances=cut.instances)
    return replace(gpu, mig_auto=auto)


def as_it_may_be_cut(node: Node) -> Node:
    """For those who ask what could ever fit: GPUs whose cut follows what waits are as good as uncut."""
    if not any(gpu.mig_auto for gpu in node.gpus):
        return node
    return replace(node, gpus=tuple(replace(gpu, instances=None) if gpu.mig_auto else gpu for gpu in node.gpus))
