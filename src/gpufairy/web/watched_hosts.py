"""Hosts that are only watched, as the same bars: each process a segment as wide as the memory it holds, in its user's hue."""
from collections.abc import Iterator, Sequence

from gpufairy.control.watch import Seen
from gpufairy.core.amounts import show_size
from gpufairy.core.free_now import FreeNow, free_now
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.web.gpu_bars import Bar, Host, Segment
from gpufairy.web.words import hue_of

MIG_SLICES = 8  # of most kinds; the table knows better


def watched_hosts(seen: Sequence[Seen]) -> list[Host]:
    return [watched_host(one) for one in seen]


def watched_host(seen: Seen) -> Host:
    sample = None if seen.silent else seen.sample
    if sample is None:
        heard = "nothing heard yet" if seen.heard_at is None else f"silent: no report since {seen.heard_at:%H:%M:%S} UTC"
        return Host(seen.node, (), heard, seen.silent, ())
    gpus = [device for device in sample.devices if device.parent is None]
    trouble = "; ".join(sample.trouble)
    readings = {reading.uuid: reading for reading in sample.readings}
    bars = tuple(bar(gpu, sample, readings.get(gpu.uuid)) for gpu in gpus)
    return Host(seen.node, kinds(gpus), trouble, False, bars, "watched: no sessions are started here")


def kinds(gpus: Sequence[GpuDevice]) -> tuple[tuple[str, bool], ...]:
    counts: dict[tuple[str, bool], int] = {}
    for gpu in gpus:
        counts[gpu.kind, gpu.simulated] = counts.get((gpu.kind, gpu.simulated), 0) + 1
    return tuple((f"{count} × {kind}", simulated) for (kind, simulated), count in counts.items())


def bar(gpu: GpuDevice, sample: NodeSample, reading: GpuReading | None) -> Bar:
    now = free_now(gpu, sample)
    instances = [device for device in sample.devices if device.parent == gpu.uuid]
    segments = tuple(cut_segments(gpu, instances, sample) if gpu.mig else segments_of(gpu, sample))
    used = None if reading is None else reading.memory_used_bytes
    whole = "" if gpu.memory_bytes is None else show_size(gpu.memory_bytes)
    memory = whole if used is None else f"{show_size(used)} / {whole}"
    work = None if reading is None or reading.utilisation is None else 100 * reading.utilisation
    free = cut_words(instances, sample) if gpu.mig and instances else free_words(now)
    said = ". ".join([f"GPU {gpu.index}, {gpu.kind}", *(segment.said for segment in segments), now.why])
    joints = tuple(sorted(end for one in instances if (end := sum(place(gpu, one))) < 100))
    return Bar(gpu.index, gpu.simulated, segments, joints, work, memory, free, said)


def free_words(now: FreeNow) -> str:
    return "not known" if now.free is None else "free" if now.free else "idle" if now.idle else "in use"


def cut_words(instances: Sequence[GpuDevice], sample: NodeSample) -> str:
    free = sum(free_now(one, sample).free is True for one in instances)
    return f"{free} of {len(instances)} free"


def segments_of(gpu: GpuDevice, sample: NodeSample) -> Iterator[Segment]:
    left = 0.0
    for process in sample.processes:
        if process.on.uuid == gpu.uuid:
            width = 100 * (process.on.memory_bytes or 0) / gpu.memory_bytes if gpu.memory_bytes else 0.0
            width = min(max(width, 2.0), 100 - left)  # a sliver at least: somebody is there
            yield segment(process, left, width)
            left += width


def cut_segments(gpu: GpuDevice, instances: Sequence[GpuDevice], sample: NodeSample) -> Iterator[Segment]:
    for one in instances:
        left, width = place(gpu, one)
        here = [process for process in sample.processes if process.on.uuid == one.uuid]
        yield from (segment(process, left, width) for process in here[:1])


def place(gpu: GpuDevice, instance: GpuDevice) -> tuple[float, float]:
    table = mig_tables().get(gpu.kind)
    slices = MIG_SLICES if table is None else table.memory_slices
    return 100 * (instance.start or 0) / slices, 100 * (instance.size or 0) / slices


def segment(process: ProcessReading, left: float, width: float) -> Segment:
    who = process.owner.user or "not known"
    memory = "memory" if process.on.memory_bytes is None else show_size(process.on.memory_bytes)
    idle = ", idle" if process.active is False else ""
    said = f"{who}: {process.process.command} holds {memory}{idle}"
    return Segment(left, width, 0.0, hue_of(who), who, said, None)
