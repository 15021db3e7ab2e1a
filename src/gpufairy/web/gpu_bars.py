"""A GPU as a bar: its width is its memory, each holder a segment, the rest free. Where each segment lies, and what is said beside it."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gpufairy.core.cluster import Cluster
from gpufairy.core.free_now import in_use
from gpufairy.core.holders import Holder, holders_by_gpu
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.reading import GpuReading
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.share import PARTS
from gpufairy.web.gauges import gauges, size_words
from gpufairy.web.speech import _
from gpufairy.web.times import length
from gpufairy.web.words import UNBROKEN, gpus_words, hue_of

LABELLED_FROM = 30.0  # hundredths of a bar: narrower, words about what is free would lie on somebody's name

Use = tuple[str, str, str]  # a device's UUID, a user, the name of a session of theirs


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
    guest: bool = False  # sits in what another lends
    loose: bool = False  # the share is accounted, and not enforced


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
    heat: str = ""
    hot: bool = False
    free_label: str = ""  # written into what is free, where there is room for it
    head: str = ""  # `GPU 0 · 97 %`
    notes: tuple[str, ...] = ()  # booked; somebody on it whom it was not given to

    @property
    def role(self) -> str:
        """A picture has no links in it for those who hear it."""
        return "group" if any(one.href is not None for one in self.segments) else "img"


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    kinds: tuple[tuple[str, bool], ...]  # `2 × A100-40GB`, and whether they are simulated
    trouble: str  # empty when it is ready
    silent: bool
    bars: tuple[Bar, ...]
    note: str = ""  # what is no trouble, but should be known
    up: str = ""  # `up 41 d`
    pool: str = ""
    state: str = NodeState.READY
    state_word: str = ""  # the same for people, where it is not ready
    hidden: int = 0  # GPUs that a filter leaves out
    skipped: bool = False  # an open page does not show it now: nothing of it is drawn


@dataclass(frozen=True, slots=True)
class Looked:
    """What beside the cluster itself is known of GPUs, and who looks at them. By UUID."""

    user: str
    now: datetime | None = None  # None: how long they are held is not told
    readings: Mapping[str, GpuReading] = field(default_factory=dict)
    used_bytes: Mapping[Use, int] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)  # who is on it without holding it
    booked: Mapping[str, str] = field(default_factory=dict)


def hosts(cluster: Cluster, rooms: Mapping[str, Room], readings: Mapping[str, GpuReading], user: str) -> list[Host]:
    """Those of the cluster that are among `rooms`."""
    looked, holders = Looked(user, readings=readings), holders_by_gpu(cluster.holding)
    return [host(node, rooms[node.name], holders, looked) for node in cluster.nodes if node.name in rooms]


def host(node: Node, room: Room, holders: Mapping[str, list[Holder]], looked: Looked) -> Host:
    bars = tuple(bar(gpu, holders.get(gpu.gpu.uuid, []), looked) for gpu in room.gpus)
    trouble = "" if node.state is NodeState.READY else f"{node.state}: {node.state_why}"
    return Host(node.name, kinds(node), trouble, node.state is NodeState.SILENT, bars, pool=node.pool or "", state=node.state)


def kinds(node: Node) -> tuple[tuple[str, bool], ...]:
    counts: dict[tuple[str, bool], int] = {}
    for gpu in node.gpus:
        counts[gpu.kind, gpu.simulated] = counts.get((gpu.kind, gpu.simulated), 0) + 1
    return tuple((f"{count}{UNBROKEN}×{UNBROKEN}{kind}", simulated) for (kind, simulated), count in counts.items())


def bar(room: GpuRoom, holders: Sequence[Holder], looked: Looked) -> Bar:
    gpu, reading = room.gpu, looked.readings.get(room.gpu.uuid)
    read, free, free_pieces = gauges(reading, gpu.memory_bytes), free_words(room), pieces(room)
    segments = segments_of(gpu, holders, looked)
    unseen = _("in use, by nobody it was given to") if not holders and reading is not None and in_use(reading) else ""
    notes = tuple(note for note in (looked.outside.get(gpu.uuid, unseen), looked.booked.get(gpu.uuid, "")) if note)
    named = _("GPU {index}, {kind}, simulated") if gpu.simulated else _("GPU {index}, {kind}")
    words = (segment.said for segment in segments), (piece.said for piece in free_pieces), (free, read.memory, read.heat), notes
    said = ". ".join([named.format(index=gpu.index, kind=gpu.kind), *(word for some in words for word in some if word)])
    label = free if gpu.mig is None and room.free_parts > 0 and 100 * room.free_parts / PARTS >= LABELLED_FROM else ""
    return Bar(
        gpu.index, gpu.simulated, segments, joints(gpu), read.work, read.memory, free, said, free_pieces,
        read.heat, read.hot, label, head_words(gpu.index, read.work), notes,
    )  # fmt: skip


def head_words(index: int, work: float | None) -> str:
    name = _("GPU") + f"{UNBROKEN}{index}"
    return name if work is None else f"{name} · {work:.0f}{UNBROKEN}%"


def free_words(room: GpuRoom) -> str:
    if room.free_parts <= 0:
        return _("full")
    if room.free_parts == PARTS:
        return _("free")
    return _("{part} free").format(part=gpus_words(room.free_parts).split(UNBROKEN)[0]).replace(" ", UNBROKEN)


def segments_of(gpu: Gpu, holders: Sequence[Holder], looked: Looked) -> tuple[Segment, ...]:
    owners = [holder for holder in holders if not holder.gpu.borrowed]
    guests = [holder for holder in holders if holder.gpu.borrowed]
    return tuple(segment(gpu, some, place, looked) for some in (owners, guests) for place in range(len(some)))


def segment(gpu: Gpu, holders: Sequence[Holder], place: int, looked: Looked) -> Segment:
    holder = holders[place]
    left, width = extent(gpu, holders, place)
    mine = holder.owner == looked.user
    held_for = "" if looked.now is None or holder.since is None else length(looked.now - holder.since)
    name = holder.session if mine else holder.owner
    label = f"{name} · {held_for}" if held_for else name
    loose = bool(holder.gpu.accounted) and holder.gpu.parts < PARTS
    href = f"/sessions/{holder.session}" if mine else None
    said = said_of(holder, mine, held_for, loose)
    return Segment(left, width, used_of(holder, len(holders), looked), hue_of(holder.owner), label, said, href, holder.gpu.borrowed, loose)


def said_of(holder: Holder, mine: bool, held_for: str, loose: bool) -> str:
    share = holder.gpu.profile or gpus_words(holder.gpu.parts)
    memory = size_words(holder.gpu.memory_bytes)
    words = _("your {name} holds {share}, {memory}") if mine else _("{name} holds {share}, {memory}")
    told = [words.format(name=holder.session if mine else holder.owner, share=share, memory=memory)]
    if held_for:
        told.append(_("for {time}").format(time=held_for))
    if loose:
        told.append(_("only accounted"))
    if holder.gpu.borrowed:
        told.append(_("lent by an idle session"))
    return ", ".join(told)


def used_of(holder: Holder, holders: int, looked: Looked) -> float:
    """By its own processes; where those are not told apart, the driver's figure of the whole GPU is that of one who is alone on it."""
    used = looked.used_bytes.get((holder.gpu.device, holder.owner, holder.session))
    reading = looked.readings.get(holder.gpu.device)
    if used is None and reading is not None and (holders == 1 or holder.gpu.instance_uuid):
        used = reading.memory_used_bytes
    return 0.0 if not used or not holder.gpu.memory_bytes else min(100.0, round(100 * used / holder.gpu.memory_bytes, 1))


def extent(gpu: Gpu, holders: Sequence[Holder], place: int) -> tuple[float, float]:
    """A MIG instance lies where it was cut; fractions lie one after the other."""
    here = holders[place].gpu
    if gpu.mig is not None:
        slices = gpu.mig.memory_slices
        return round(100 * here.start / slices, 2), round(100 * here.size / slices, 2)
    return round(100 * sum(holder.gpu.parts for holder in holders[:place]) / PARTS, 2), round(100 * here.parts / PARTS, 2)


def pieces(room: GpuRoom) -> tuple[Piece, ...]:
    gpu = room.gpu
    if gpu.mig is None or gpu.instances is None:
        return ()
    part = 100 / gpu.mig.memory_slices
    free = [one for one in gpu.instances if (one.start, one.size) not in room.cut]
    words = _("a {profile} at slice {slice} is free")
    return tuple(
        Piece(round(one.start * part, 2), round(one.size * part, 2), one.profile, words.format(profile=one.profile, slice=one.start))
        for one in free
    )


def joints(gpu: Gpu) -> tuple[float, ...]:
    if gpu.mig is None or gpu.instances is None:
        return ()
    ends = {round(100 * (instance.start + instance.size) / gpu.mig.memory_slices, 2) for instance in gpu.instances}
    return tuple(sorted(end for end in ends if end < 100))
