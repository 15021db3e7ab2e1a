"""Hosts that are only watched, as the same bars: each process a segment as wide as the memory it holds, in its user's hue."""
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.control.watch import Seen
from gpufairy.core.free_now import FreeNow, free_now
from gpufairy.core.node import NodeState
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.web.gauges import gauges, size_words
from gpufairy.web.gpu_bars import Bar, Host, Segment, head_words
from gpufairy.web.speech import _
from gpufairy.web.times import clock, here, length
from gpufairy.web.words import UNBROKEN, hue_of

MIG_SLICES = 8  # of most kinds; the table knows better
WATCHED, AWAITED = "watched", "awaited"  # in place of the state of a node


@dataclass(frozen=True, slots=True)
class WatchedGpu:
    """One GPU of a watched host: as it is filtered, and drawn."""

    device: GpuDevice
    now: FreeNow


def watched_hosts(seen: Sequence[Seen]) -> list[Host]:
    return [watched_host(one) for one in seen]


def watched_host(seen: Seen, gpus: Sequence[WatchedGpu] | None = None, now: datetime | None = None) -> Host:
    """`gpus`: those that are drawn; None: all. `now`: to tell for how long it is silent."""
    sample = None if seen.silent else seen.sample
    if sample is None:
        return Host(seen.node, (), silence_words(seen, now), seen.silent, (), state=watched_state(seen), note=watched_note())
    gpus = watched_gpus(sample) if gpus is None else gpus
    readings = {reading.uuid: reading for reading in sample.readings}
    bars = tuple(bar(gpu, sample, readings.get(gpu.device.uuid)) for gpu in gpus)
    return Host(
        seen.node, kinds([gpu.device for gpu in gpus]), "; ".join(sample.trouble), False, bars, watched_note(), up_words(sample),
        state=watched_state(seen),
    )  # fmt: skip


def watched_gpus(sample: NodeSample) -> list[WatchedGpu]:
    return [WatchedGpu(device, free_now(device, sample)) for device in sample.devices if device.parent is None]


def watched_note() -> str:
    return _("only watched: no sessions start here")


def watched_state(seen: Seen) -> str:
    if seen.silent:
        return NodeState.SILENT
    if seen.sample is None:
        return AWAITED
    return WATCHED if seen.sample.gpus_known else NodeState.FAULTY


def silence_words(seen: Seen, now: datetime | None) -> str:
    if seen.heard_at is None:
        return _("It has told nothing since the server began.")
    if now is None:
        return _("No report since {time}.").format(time=f"{here(seen.heard_at):%H:%M:%S}")
    return _("No report for {length}, since {time}.").format(length=length(now - seen.heard_at), time=clock(seen.heard_at, now))


def up_words(sample: NodeSample | None) -> str:
    up_s = None if sample is None or sample.host is None else sample.host.up_s
    return "" if up_s is None else _("up {time}").format(time=length(timedelta(seconds=up_s)))


def kinds(gpus: Sequence[GpuDevice]) -> tuple[tuple[str, bool], ...]:
    counts: dict[tuple[str, bool], int] = {}
    for gpu in gpus:
        counts[gpu.kind, gpu.simulated] = counts.get((gpu.kind, gpu.simulated), 0) + 1
    return tuple((f"{count}{UNBROKEN}×{UNBROKEN}{kind}", simulated) for (kind, simulated), count in counts.items())


def bar(of: WatchedGpu, sample: NodeSample, reading: GpuReading | None) -> Bar:
    gpu = of.device
    instances = [device for device in sample.devices if device.parent == gpu.uuid]
    segments = tuple(cut_segments(gpu, instances, sample) if gpu.mig else segments_of(gpu, sample))
    read = gauges(reading, gpu.memory_bytes)
    free = cut_words(instances, sample) if gpu.mig and instances else free_words(of.now)
    named = _("GPU {index}, {kind}").format(index=gpu.index, kind=gpu.kind)
    said = ". ".join(word for word in (named, *(one.said for one in segments), free, read.memory, read.heat) if word)
    joints = tuple(sorted(end for one in instances if (end := sum(place(gpu, one))) < 100))
    label = "" if segments else free
    head = head_words(gpu.index, read.work)
    return Bar(gpu.index, gpu.simulated, segments, joints, read.work, read.memory, free, said, (), read.heat, read.hot, label, head)


def free_words(now: FreeNow) -> str:
    if now.free is None:
        return _("not known")
    return _("free") if now.free else _("idle") if now.idle else _("in use")


def cut_words(instances: Sequence[GpuDevice], sample: NodeSample) -> str:
    free = sum(free_now(one, sample).free is True for one in instances)
    return _("{free} of {all} free").format(free=free, all=len(instances))


def segments_of(gpu: GpuDevice, sample: NodeSample) -> Iterator[Segment]:
    left = 0.0
    for process in sample.processes:
        if process.on.uuid == gpu.uuid:
            width = 100 * (process.on.memory_bytes or 0) / gpu.memory_bytes if gpu.memory_bytes else 0.0
            width = min(max(width, 2.0), 100 - left)  # a sliver at least: somebody is there
            yield segment(process, round(left, 2), round(width, 2))
            left += width


def cut_segments(gpu: GpuDevice, instances: Sequence[GpuDevice], sample: NodeSample) -> Iterator[Segment]:
    for one in instances:
        left, width = place(gpu, one)
        on_it = [process for process in sample.processes if process.on.uuid == one.uuid]
        yield from (segment(process, left, width) for process in on_it[:1])


def place(gpu: GpuDevice, instance: GpuDevice) -> tuple[float, float]:
    table = mig_tables().get(gpu.kind)
    slices = MIG_SLICES if table is None else table.memory_slices
    return round(100 * (instance.start or 0) / slices, 2), round(100 * (instance.size or 0) / slices, 2)


def segment(process: ProcessReading, left: float, width: float) -> Segment:
    who = process.owner.user or _("not known")
    memory = _("memory") if process.on.memory_bytes is None else size_words(process.on.memory_bytes)
    words = _("{name}: {command} holds {memory}, idle") if process.active is False else _("{name}: {command} holds {memory}")
    said = words.format(name=who, command=process.process.command, memory=memory)
    return Segment(left, width, 0.0, hue_of(who), who, said, None)
