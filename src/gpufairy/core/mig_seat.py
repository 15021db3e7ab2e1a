"""Which GPU of several to take a MIG instance from, and where on it: a fixed one that is free, else the cut that costs those who come
later the least (mig_worth.py).
"""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpufairy.core.mig import MigProfile, MigTable, has_media
from gpufairy.core.mig_worth import cut_costs, mask_of
from gpufairy.core.node import Sharing
from gpufairy.core.room import GpuRoom
from gpufairy.core.session import GpuSeat
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import seat_words


@dataclass(frozen=True, slots=True, order=True)
class CutChoice:
    """Where an instance may come from; the least is the best."""

    to_be_cut: bool  # one that is cut already goes first: it can take nothing else, an uncut region can
    unusable_more: float  # slices that what was asked for lately cannot use after it, less those before
    left: int  # free slices of the GPU: of equals the fullest
    region_less: int  # minus the largest contiguous region that it leaves
    start_less: int  # minus the start: the large profiles begin low
    place: int  # of the GPU among those asked about
    start: int
    gpu: GpuRoom = field(compare=False)
    table: MigTable = field(compare=False)
    profile: MigProfile = field(compare=False)
    uuid: str = field(compare=False, default="")  # of an instance that is there


def best_cut(name: str, gpus: Iterable[GpuRoom], asked_lately: Mapping[str, float]) -> CutChoice | None:
    """None: no GPU has room for it."""
    return min((choice for place, gpu in enumerate(gpus) for choice in cuts_on(gpu, place, name, asked_lately)), default=None)


def cuts_on(gpu: GpuRoom, place: int, name: str, asked_lately: Mapping[str, float]) -> list[CutChoice]:
    table = gpu.gpu.mig
    profile = table.profile(name) if table is not None else None
    if table is None or profile is None or (has_media(name) and gpu.media):
        return []
    left = table.memory_slices - mask_of(gpu.cut).bit_count()
    if gpu.gpu.instances is not None:
        there = next((one for one in gpu.gpu.instances if one.profile == name and (one.start, one.size) not in gpu.cut), None)
        return [] if there is None else [CutChoice(False, 0.0, left, 0, 0, place, there.start, gpu, table, profile, there.uuid)]
    costs = cut_costs(table, profile, gpu.cut, asked_lately)
    return [
        CutChoice(True, cost.unusable_more, left, cost.region_less, cost.start_less, place, start, gpu, table, profile)
        for start, cost in costs.items()
    ]  # fmt: skip


def instance_on(chosen: CutChoice) -> GpuSeat:
    gpu, table, profile = chosen.gpu.gpu, chosen.table, chosen.profile
    parts = profile.compute_slices * PARTS // table.compute_slices
    memory_bytes = profile.memory_bytes or gpu.memory_bytes * profile.size // table.memory_slices
    enforced, accounted = seat_words(gpu, parts)
    return GpuSeat(
        gpu.index, gpu.uuid, parts, memory_bytes, gpu.kind, gpu.simulated,
        profile=profile.name, start=chosen.start, size=profile.size, instance_uuid=chosen.uuid,
        enforced=enforced, accounted=accounted, sharing=Sharing.MIG,
    )  # fmt: skip
