"""A GPU as a bar: its width is its memory, each holder a segment, the rest free. Where each segment lies, and what is said beside it."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpufairy.core.amounts import show_size
from gpufairy.core.cluster import Cluster
from gpufairy.core.holders import Holder, holders_by_gpu
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.reading import GpuReading
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.share import PARTS
from gpufairy.web.words import gpus_words, hue_of


@dataclass(frozen=True, slots=True)
class Segment:
    """Places and widths are hundredths of what they lie in."""

    left: float
    width: float
    used: float  # the darker part; 0 where it is not known whose use it is
    hue: str
    label: str
    said: str  # the same in full, for those who point at it or hear it
    href: str | None  # None: somebody else's


@dataclass(frozen=True, slots=True)
class Piece:
    """A MIG instance that is cut and free."""

    left: float
    width: float
    label: str
    said: str


@dataclass(frozen=True, slots=True)
class Bar:
    index: int
    simulated: bool
    segments: tuple[Segment, ...]
    joints: tuple[float, ...]  # where a fixed MIG cut parts the GPU
    work: float | None  # hundredths; None: not known
    memory: str
    free: str
    said: str
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    kinds: tuple[tuple[str, bool], ...]  # `2 × A100-40GB`, and whether they are simulated
    trouble: str  # empty when it is ready
    silent: bool
    bars: tuple[Bar, ...]
    note: str = ""  # what is no trouble, but should be known


def hosts(cluster: Cluster, readings: Mapping[str, GpuReading], user: str) -> list[Host]:
    rooms, holders = cluster.rooms(), holders_by_gpu(cluster.holding)
    return [host(node, rooms[node.name], holders, readings, user) for node in cluster.nodes]


def host(node: Node, room: Room, holders: Mapping[str, list[Holder]], readings: Mapping[str, GpuReading], user: str) -> Host:
    bars = tuple(bar(gpu, holders.get(gpu.gpu.uuid, []), readings.get(gpu.gpu.uuid), user) for gpu in room.gpus)
    trouble = "" if node.state is NodeState.READY else f"{node.state}: {node.state_why}"
    return Host(node.name, kinds(node), trouble, node.state is NodeState.SILENT, bars)


def kinds(node: Node) -> tuple[tuple[str, bool], ...]:
    counts: dict[tuple[str, bool], int] = {}
    for gpu in node.gpus:
        counts[gpu.kind, gpu.simulated] = counts.get((gpu.kind, gpu.simulated), 0) + 1
    return tuple((f"{count} × {kind}", simulated) for (kind, simulated), count in counts.items())


def bar(room: GpuRoom, holders: Sequence[Holder], reading: GpuReading | None, user: str) -> Bar:
    gpu = room.gpu
    used_bytes = reading.memory_used_bytes if reading is not None else None
    work = None if reading is None or reading.utilisation is None else 100 * reading.utilisation
    free = "full" if room.free_parts <= 0 else f"{gpus_words(room.free_parts).split()[0]} free"
    named = f"GPU {gpu.index}, {gpu.kind}{', simulated' if gpu.simulated else ''}"
    segments = tuple(segment(gpu, holders, place, used_bytes, user) for place in range(len(holders)))
    free_pieces = pieces(room)
    said = ". ".join([named, *(segment.said for segment in segments), *(piece.said for piece in free_pieces), free])
    memory = show_size(gpu.memory_bytes) if used_bytes is None else f"{show_size(used_bytes)} / {show_size(gpu.memory_bytes)}"
    return Bar(gpu.index, gpu.simulated, segments, joints(gpu), work, memory, free, said, free_pieces)


def segment(gpu: Gpu, holders: Sequence[Holder], place: int, used_bytes: int | None, user: str) -> Segment:
    holder = holders[place]
    left, width = extent(gpu, holders, place)
    mine = holder.owner == user
    # The driver tells what is used of the whole GPU: only a holder who is alone on it is told apart.
    known = used_bytes is not None and len(holders) == 1 and holder.gpu.memory_bytes > 0
    used = min(100.0, 100 * (used_bytes or 0) / holder.gpu.memory_bytes) if known else 0.0
    share = holder.gpu.profile or gpus_words(holder.gpu.parts)
    who = f"your {holder.session}" if mine else holder.owner
    said = f"{who} holds {share}, {show_size(holder.gpu.memory_bytes)}"
    href = f"/sessions/{holder.session}" if mine else None
    return Segment(left, width, used, hue_of(holder.owner), holder.session if mine else holder.owner, said, href)


def extent(gpu: Gpu, holders: Sequence[Holder], place: int) -> tuple[float, float]:
    """A MIG instance lies where it was cut; fractions lie one after the other."""
    here = holders[place].gpu
    if gpu.mig is not None:
        slices = gpu.mig.memory_slices
        return 100 * here.start / slices, 100 * here.size / slices
    return 100 * sum(holder.gpu.parts for holder in holders[:place]) / PARTS, 100 * here.parts / PARTS


def pieces(room: GpuRoom) -> tuple[Piece, ...]:
    gpu = room.gpu
    if gpu.mig is None or gpu.instances is None:
        return ()
    part = 100 / gpu.mig.memory_slices
    free = [one for one in gpu.instances if (one.start, one.size) not in room.cut]
    return tuple(Piece(one.start * part, one.size * part, one.profile, f"a {one.profile} at slice {one.start} is free") for one in free)


def joints(gpu: Gpu) -> tuple[float, ...]:
    if gpu.mig is None or gpu.instances is None:
        return ()
    ends = {100 * (instance.start + instance.size) / gpu.mig.memory_slices for instance in gpu.instances}
    return tuple(sorted(end for end in ends if end < 100))
