"""Several samples of one node as one: means of what flows, the newest of what stands. What was never known stays not known."""
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.reading import GpuReading

FLOWS = ("utilisation", "memory_utilisation", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "power_w")  # the rest stands
SESSION_FLOWS = ("cpus", "read_bytes_per_s", "written_bytes_per_s", "received_bytes_per_s", "sent_bytes_per_s", "io_waited")


def mean_sample(samples: Sequence[NodeSample]) -> NodeSample:
    """`samples`: at least one, oldest first. Errors that befell the GPUs are of all of them, each once.

    It stands for the time in which the driver answered or was silent as it is now: the rest of the time is in no sample, and so not known.
    """
    newest = samples[-1]
    alike = [sample for sample in samples if sample.gpus_known is newest.gpus_known]
    seconds = sum(sample.seconds for sample in alike)
    xids = tuple(xid for sample in samples for xid in sample.xids)
    theirs = _grouped((reading.session_id, reading) for sample in alike for reading in sample.sessions)
    newest = replace(newest, sessions=tuple(_mean_session(reading, theirs[reading.session_id]) for reading in newest.sessions))
    if not newest.gpus_known:
        return replace(newest, seconds=seconds, xids=xids)
    gpus = _grouped((reading.uuid, reading) for sample in alike for reading in sample.readings)
    runs = _grouped((_key(process), process) for sample in alike for process in sample.processes)
    return replace(
        newest,
        seconds=seconds,
        readings=tuple(_mean_reading(reading, gpus[reading.uuid]) for reading in newest.readings),
        processes=tuple(_mean_process(process, runs[_key(process)]) for process in newest.processes),
        xids=xids,
    )


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _key(process: ProcessReading) -> tuple[int, int, str]:
    return process.process.pid, process.process.start_ticks, process.on.uuid


def _mean_reading(newest: GpuReading, all_of_it: Sequence[GpuReading]) -> GpuReading:
    means: dict[str, Any] = {name: _mean([getattr(reading, name) for reading in all_of_it]) for name in FLOWS}
    return replace(newest, **means)


def _mean_session(newest: SessionReading, all_of_it: Sequence[SessionReading]) -> SessionReading:
    means: dict[str, Any] = {name: _mean([getattr(reading, name) for reading in all_of_it]) for name in SESSION_FLOWS}
    return replace(newest, **means)


def _mean_process(newest: ProcessReading, all_of_it: Sequence[ProcessReading]) -> ProcessReading:
    on = replace(
        newest.on,
        utilisation=_mean([process.on.utilisation for process in all_of_it]),
        memory_utilisation=_mean([process.on.memory_utilisation for process in all_of_it]),
    )
    return replace(newest, on=on)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
