"""What a session of mine uses now of what it holds: GPUs, their memory, CPUs, memory. As its host last read it; unknown is not zero."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.reading import GpuReading
from gpufairy.core.session import GpuSeat, Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.web.gauges import memory_words
from gpufairy.web.speech import _
from gpufairy.web.times import figure_of
from gpufairy.web.words import UNBROKEN


@dataclass(frozen=True, slots=True)
class Meter:
    label: str
    words: str
    part: float | None  # hundredths of what is held; None: not known


def meters(session: Session, samples: Mapping[str, NodeSample]) -> tuple[Meter, ...]:
    seat = session.seat
    if seat is None:
        return ()
    sample = samples.get(seat.node)
    own = [] if sample is None else [process for process in sample.processes if process.owner.session_id == session.id]
    readings = {} if sample is None or not sample.gpus_known else {reading.uuid: reading for reading in sample.readings}
    gpus = (gpu_meter(seat, own, readings), memory_meter(seat, own, readings)) if seat.gpus else ()
    return (*gpus, *host_meters(session.id, seat, sample))


def gpu_meter(seat: Seat, own: Sequence[ProcessReading], readings: Mapping[str, GpuReading]) -> Meter:
    """How hard its GPUs work, over all of them; of a part of one, against that part."""
    known = [work_on(gpu, own, readings) for gpu in seat.gpus]
    busy = [work for work in known if work is not None]
    if len(busy) < len(seat.gpus):
        return Meter(_("GPU"), _("not known"), None)
    part = min(100.0, 100 * sum(busy) / len(busy))
    return Meter(_("GPU"), f"{part:.0f}{UNBROKEN}%", part)


def work_on(gpu: GpuSeat, own: Sequence[ProcessReading], readings: Mapping[str, GpuReading]) -> float | None:
    """Of its share of that GPU. One who has it alone has all that is done there; beside others its own programs tell."""
    reading = readings.get(gpu.device)
    if reading is None:
        return None
    if gpu.parts >= PARTS or gpu.profile:
        return reading.utilisation
    here = [process.on.utilisation for process in own if process.on.uuid == gpu.device]
    if not reading.processes_known or any(one is None for one in here):
        return None
    return sum(one or 0.0 for one in here) * PARTS / gpu.parts


def memory_meter(seat: Seat, own: Sequence[ProcessReading], readings: Mapping[str, GpuReading]) -> Meter:
    held = sum(gpu.memory_bytes for gpu in seat.gpus)
    used = [memory_on(gpu, own, readings) for gpu in seat.gpus]
    known = [size for size in used if size is not None]
    if len(known) < len(used):
        return Meter(_("GPU memory"), memory_words(None, held), None)
    return Meter(_("GPU memory"), memory_words(sum(known), held), part_of(sum(known), held))


def memory_on(gpu: GpuSeat, own: Sequence[ProcessReading], readings: Mapping[str, GpuReading]) -> int | None:
    reading = readings.get(gpu.device)
    if reading is None:
        return None
    if gpu.parts >= PARTS or gpu.profile:
        return reading.memory_used_bytes
    here = [process.on.memory_bytes for process in own if process.on.uuid == gpu.device]
    return None if not reading.processes_known or any(one is None for one in here) else sum(one or 0 for one in here)


def host_meters(session_id: str, seat: Seat, sample: NodeSample | None) -> tuple[Meter, Meter]:
    own = None if sample is None else next((one for one in sample.sessions if one.session_id == session_id), None)
    cpus, memory = (None, None) if own is None else (own.cpus, own.memory_bytes)
    held_cpus = seat.cpus_milli / 1000
    words = figure_of(held_cpus) if cpus is None else f"{figure_of(cpus)}{UNBROKEN}/{UNBROKEN}{figure_of(held_cpus)}"
    return (
        Meter(_("CPUs"), words, part_of(cpus, held_cpus)),
        Meter(_("Memory"), memory_words(memory, seat.memory_bytes), part_of(memory, seat.memory_bytes)),
    )


def part_of(used: float | None, held: float) -> float | None:
    return None if used is None or held <= 0 else min(100.0, 100 * used / held)
