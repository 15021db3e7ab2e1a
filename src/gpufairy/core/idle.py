"""Idle: whether a session that holds GPUs uses them, over a window of readings. Three answers: what is not known is never idle.

Its programs on the GPU count, what they take of the CPUs, and what somebody types in it.
"""
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.active import BUSY_FROM
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import Owner
from gpufairy.core.reading import GpuReading
from gpufairy.core.session import GpuSeat, Session

# Of one CPU, as a mean over the last minute. An editor's server or a notebook that waits takes a hundredth; a compiler, a download that
# is unpacked, a data loader take more.
BUSY_CPUS = 0.05
CPU_MEAN_S = 60.0
# Readings come each second, at most a minute apart. After so long without one nobody knows what happened meanwhile.
LONGEST_GAP = timedelta(seconds=90)
OnDevice = Mapping[str, Sequence[ProcessReading]]  # all that is on a device, by its UUID
SILENT_DRIVER = None, "the GPU driver of its host does not answer"


@dataclass(frozen=True, slots=True)
class Glance:
    """What one sample says of one session."""

    gpus_busy: bool | None
    cpus: float | None
    typed: bool | None
    why: str = ""  # what of its GPUs is not known, in words
    memory: Mapping[str, int | None] | None = None  # what it holds of each GPU's memory, by UUID of the device; None: not known


@dataclass(frozen=True, slots=True)
class Watched:
    """What is remembered of one session: as much after a day as after a minute."""

    at: datetime  # the newest look at which all was known
    active: bool | None  # at the newest look of all
    why: str
    idle_since: datetime | None = None  # from here to `at` it was idle
    cpus: float | None = None  # the mean of late
    glance: Glance | None = None  # the newest


def glances(sample: NodeSample, sessions: Iterable[Session]) -> dict[str, Glance]:
    """Of sessions with GPUs on that host, by id."""
    own: dict[str | None, list[ProcessReading]] = {}
    on_device: dict[str, list[ProcessReading]] = {}
    for process in sample.processes:
        own.setdefault(process.owner.session_id, []).append(process)
        on_device.setdefault(process.on.uuid, []).append(process)
    readings = {reading.uuid: reading for reading in sample.readings}
    said = {reading.session_id: reading for reading in sample.sessions}
    found = {}
    for session in sessions:
        gpus = () if session.seat is None else session.seat.gpus
        mine, of_it = own.get(session.id, []), said.get(session.id, SessionReading(session.id))
        busy, why = gpus_busy(gpus, mine, on_device, readings) if sample.gpus_known else SILENT_DRIVER
        memory = {gpu.device: memory_on(gpu, session.id, on_device, readings) for gpu in gpus} if sample.gpus_known else None
        found[session.id] = Glance(busy, of_it.cpus, of_it.typed, why, memory)
    return found


def gpus_busy(
    gpus: Sequence[GpuSeat], mine: Sequence[ProcessReading], on_device: OnDevice, readings: Mapping[str, GpuReading]
) -> tuple[bool | None, str]:
    """And why nobody can tell."""
    if any(map(computes, mine)):
        return True, ""
    for gpu in gpus:
        reading, here = readings.get(gpu.device), [process for process in mine if process.on.uuid == gpu.device]
        there = on_device.get(gpu.device, ())
        if reading is None or not reading.processes_known:
            return None, f"who is on GPU {gpu.index} cannot be read"
        if any(process.on.utilisation is None for process in here):
            return None, f"what its program does on GPU {gpu.index} cannot be read"
        if any(is_unclaimed(process.owner) and (process.on.utilisation is None or computes(process)) for process in there):
            return None, f"whose program computes on GPU {gpu.index} is not known"
        if len(there) > len(here):
            continue  # whatever the whole GPU does, its own programs there are known
        if reading.utilisation is None:
            return None, f"the use of GPU {gpu.index} cannot be read"
        if reading.utilisation >= BUSY_FROM:
            return (True, "") if here else (None, f"something that is not seen uses GPU {gpu.index}")
    return False, ""


def computes(process: ProcessReading) -> bool:
    return bool(process.active) or (process.on.utilisation or 0.0) >= BUSY_FROM


def is_unclaimed(owner: Owner) -> bool:
    """It may be anybody's: while an engine is silent, the programs of a session look like this too."""
    return owner.outside or (owner.session_id is None and owner.user is None)


def memory_on(gpu: GpuSeat, session_id: str, on_device: OnDevice, readings: Mapping[str, GpuReading]) -> int | None:
    """At most: what nobody is known to own counts as its own."""
    reading, there = readings.get(gpu.device), on_device.get(gpu.device, ())
    held = [one.on.memory_bytes for one in there if one.owner.session_id == session_id or is_unclaimed(one.owner)]
    known = [size for size in held if size is not None]
    return None if reading is None or not reading.processes_known or len(known) < len(held) else sum(known)


def watched(before: Watched | None, seen: Glance, now: datetime) -> Watched:
    """After one more look."""
    if before is not None and now - before.at > LONGEST_GAP:
        before = None
    cpus = mean_cpus(before, seen.cpus, now)
    active, why = judged(seen, cpus)
    if active is None and before is not None:
        return Watched(before.at, None, why, before.idle_since, before.cpus, seen)
    if active is not False:
        return Watched(now, active, why, None, cpus, seen)
    since = now if before is None or before.idle_since is None else before.idle_since
    return Watched(now, False, why, since, cpus, seen)


def judged(seen: Glance, cpus: float | None) -> tuple[bool | None, str]:
    if seen.gpus_busy:
        return True, "its programs use the GPU"
    if seen.typed:
        return True, "somebody types in it"
    if cpus is not None and cpus >= BUSY_CPUS:
        return True, f"it uses {cpus:.1g} CPUs"
    if seen.gpus_busy is None:
        return None, seen.why
    if cpus is None:
        return None, "what it takes of the CPUs is not known"
    if seen.typed is None:
        return None, "whether anybody types in it is not known"
    return False, "nothing computes on its GPUs, its CPUs rest, and nobody types in it"


def mean_cpus(before: Watched | None, cpus: float | None, now: datetime) -> float | None:
    if before is None or before.cpus is None or cpus is None:
        return cpus
    weight = math.exp(-max(0.0, (now - before.at).total_seconds()) / CPU_MEAN_S)
    return before.cpus * weight + cpus * (1 - weight)


def idle_since(found: Watched | None, now: datetime) -> datetime | None:
    """None: it is in use, or nobody can tell."""
    return None if found is None or found.active is not False or now - found.at > LONGEST_GAP else found.idle_since
