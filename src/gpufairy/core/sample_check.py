"""What a sample from another machine must be before it is believed: its figures possible, its parts fitting together."""
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from gpufairy.core.host_reading import HostReading
from gpufairy.core.node_sample import NodeSample

MOST_DEVICES = 256  # 16 GPUs, each cut into seven and counted whole as well, are 128
MOST_PROCESSES = 8192
MOST_PARTS = 4096  # mounts, disks, users … of one host
MOST_WORDS = 256  # troubles of one host, reasons of one GPU to slow down
LARGEST = 2**63 - 1  # what the store can hold
LARGEST_SHOWN = 2**64  # of what is only shown: file systems without a limit say so many files
FROM_THE_FUTURE = timedelta(minutes=5)  # clocks of a lab differ by seconds; more than this is a wrong clock
OLDEST = timedelta(days=7)  # of what an agent kept and delivers late
COLDEST_C, HOTTEST_C = -274, 100_000  # broken sensors say -273.15 and 65261.85, and the rest of their host is as good as any
FIRST_YEAR, LAST_YEAR = 1970, 9000
RATIOS = frozenset(
    "utilisation memory_utilisation sm_active sm_occupancy tensor_active dram_active fan cpu_used some full io_waited".split()
)


def sample_fault(sample: NodeSample, now: datetime) -> str | None:
    """The first thing that cannot be, in words; None: nothing."""
    return next(_faults(sample, now), None)


def _faults(sample: NodeSample, now: datetime) -> Iterator[str]:
    if sample.at - now > FROM_THE_FUTURE:
        yield f"at: {sample.at:%Y-%m-%d %H:%M:%S} is still to come"
    if now - sample.at > OLDEST:
        yield f"at: {sample.at:%Y-%m-%d %H:%M:%S} is more than {OLDEST.days} days ago"
    if not 0 <= sample.seconds <= 3600:
        yield f"seconds: {sample.seconds} is not between 0 and 3600"
    if sample.agent_up_s is not None and not 0 <= sample.agent_up_s <= LARGEST:
        yield f"agent_up_s: {str(sample.agent_up_s)[:40]} is out of range"
    yield from _too_many(sample)
    yield from _no_times(sample)
    known = {device.uuid for device in sample.devices}
    if len(known) < len(sample.devices):
        yield "devices: one UUID is there twice"
    for reading in sample.readings:
        if reading.uuid not in known:
            yield f"readings: no device {reading.uuid[:60]!r}"
        yield from _out_of_range(reading, f"on {reading.uuid[:60]}", LARGEST)
    for process in sample.processes:
        if process.on.uuid not in known:
            yield f"processes: no device {process.on.uuid[:60]!r}"
        yield from _out_of_range(process.on, f"on {process.on.uuid[:60]}", LARGEST)
        yield from _out_of_range(process.process, f"of process {process.on.pid}")
    for part in (*sample.devices, *sample.sessions, *sample.xids, *(() if sample.host is None else _parts(sample.host))):
        yield from _out_of_range(part, f"of {sample.node}")
    if sample.host is not None:
        yield from _in_rows(sample.host)


def _in_rows(host: HostReading) -> Iterator[str]:
    for used in host.cores:
        if not 0 <= used <= 1:
            yield f"cores: {str(used)[:40]} is out of range"
    for sensor, degrees in host.temperatures_c:
        if not COLDEST_C <= degrees <= HOTTEST_C:
            yield f"temperatures_c: {str(degrees)[:40]} is out of range at {sensor[:60]!r}"


def _parts(host: HostReading) -> Iterator[Any]:
    yield host
    yield from (host.cpu_pressure, host.memory_pressure, host.io_pressure)
    for parts in (host.disks, host.mounts, host.networks, host.users):
        yield from parts


def _too_many(sample: NodeSample) -> Iterator[str]:
    if len(sample.devices) > MOST_DEVICES or len(sample.readings) > MOST_DEVICES or len(sample.lost) > MOST_DEVICES:
        yield f"devices: more than {MOST_DEVICES}"
    if len(sample.processes) > MOST_PROCESSES or len(sample.sessions) > MOST_PROCESSES:
        yield f"processes: more than {MOST_PROCESSES}"
    if len(sample.trouble) > MOST_WORDS or any(len(reading.throttled_by or ()) > MOST_WORDS for reading in sample.readings):
        yield f"trouble, throttled_by: more than {MOST_WORDS}"
    if len(sample.xids) > MOST_PARTS:
        yield f"xids: more than {MOST_PARTS}"
    host = sample.host
    if host is not None:
        parts = (host.cores, host.disks, host.mounts, host.networks, host.temperatures_c, host.users)
        if any(len(part) > MOST_PARTS for part in parts):
            yield f"host: more than {MOST_PARTS} of a kind"


def _no_times(sample: NodeSample) -> Iterator[str]:
    """By the host's own clock, which may be wrong by decades; but at the ends of the calendar nobody can reckon."""
    host = () if sample.host is None else (sample.host,)
    for part in (*host, *sample.readings, *sample.xids):
        if part.at.utcoffset() is None or not FIRST_YEAR <= part.at.year <= LAST_YEAR:
            yield f"at: {part.at.isoformat()[:40]} is no time with a zone, or lies beyond the years {FIRST_YEAR} to {LAST_YEAR}"


def _out_of_range(part: Any, where: str, largest: int = LARGEST_SHOWN) -> Iterator[str]:
    for name in _names(part.__class__):
        value = getattr(part, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        lowest, highest = (COLDEST_C, HOTTEST_C) if name.endswith("_c") else (0, 1 if name in RATIOS else largest)
        if not lowest <= value <= highest:
            yield f"{name}: {str(value)[:40]} is out of range {where}"  # it may have thousands of figures


@lru_cache(maxsize=32)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
